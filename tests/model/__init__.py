"""The model test: `plan` runs flows, and an independent interpreter checks every moment of them.

`reference` is the interpreter. It is written from docs/reference.md alone, keeps its own state, and
knows no status, View or action. `acting` has vcjobs that follow a script, `random_flows` draws
flows and scripts, `carrying` runs a flow with `plan` in simulated time. When no plan has anything
left to do, the reference checks the vcjobs that were created (in a possible order, with the right
names, templates, items and nodes), the steps that have ended and how, and finally the end of the
flow.

If docs/reference.md leaves something open, the reference uses one of these readings (many are in
docs/decisions: runs, policies-of-a-flow, skips-and-stop, commands-and-cancel):

- A step has started once it had a vcjob. Its failure counts when the step has ended, so a forEach
  with a failed item fails only after the items that have started have ended.
- An item that has started continues its attempts after another item has failed, and keeps its place
  of `forEach.parallelism` between two attempts. Other items start only with `continueOnFailure` on
  the step or `failurePolicy: Continue`.
- A repeat whose run has failed for good fails; `until` is not evaluated.
- Each run (item, repeat) has its own retries. A timeout of the step is a failure. A refused create
  or a reference without a value is not retried, because there was no vcjob. A retry of the flow
  gives a new `limit`.
- An error in `until` or `retry.when` fails the step with the reason ExpressionError.
- A forEach or repeat was Running once one of its vcjobs was. After a retry of the flow only new
  vcjobs count.
- A vcjob that completes while it is aborted has completed, with its outputs. If it fails, it has
  the outputs that watched pods show; its pods are not read. If a suspension aborts it, and it is
  Failed or Terminated instead of Aborted, it has failed by itself.
- `retry.when` is not evaluated for an attempt that ends when the flow is cancelled or times out,
  even in the same second.
- The step whose failure aborts the flow is not aborted.
- Decisions are made once the dependencies are met, also in a stopped flow: if `when` does not hold,
  the step is NotTaken and not Stopped. A forEach without items is Stopped in a stopped flow.
- A failure with continueOnFailure also satisfies Running.
- A daemon that is between two attempts when all other steps have ended has completed (DaemonEnded),
  even if the flow is suspended.
- No decision is made in a suspended flow; one in which all steps have ended ends.
- Dependants of a daemon wait for Running unless they set another condition.
- Abort does not abort a step that may start in a stopped flow (its own condition is Failed,
  Finished or Always, or it depends on such a step). Only AbortJob aborts steps of `finally`.
- `flow.phase` in `finally` is the end of the flow by its other steps, Succeed or Failed.
- A step that has not started when the flow is cancelled or times out is Stopped, unless its end is
  known already.
- A retry of the flow keeps completed items, unless a step before them runs again, and the repeats
  before the one that failed. A repeat without a failed run, or behind a step that runs again,
  starts again. A daemon that ended with its flow runs again if a step that does needs it, directly
  or not.
- A flow of a concurrency group that is cancelled before its start runs nothing, `finally` included.
  Its timeout, and the suspended time that does not count for it, begin with its start.
- What was skipped because of a step that a user skips is what was UpstreamFailed behind it, and all
  that was Stopped. In a flow that has not ended, a skip of a step that has not ended either makes
  nothing run again, and neither does `finally`.
- A step that failed because of `failurePolicy: Abort` does not stop the flow by itself, if the step
  whose failure it was runs again.
- An item that a user has given up before its step started has failed: no further item starts.
- A Command on a step of a child flow goes to the child flow of the last attempt of the run. If that
  child flow runs, its step is ended first, and then the child flow; after a skip it succeeds with
  the outputs of the skip. Between two attempts the Command has no effect. If the run has ended, its
  child flow continues in place of a new one, even if something before the run runs again too.
- A child flow that succeeds has been Running.
- If a flow is cancelled before an item runs again, its step may be Failed because of another item,
  or Stopped.
- Any other Command on a flow to which it does not apply changes nothing.
- A flow that reuses another one of the same spec takes the result of a run that completed there and
  does the same, in the order of the runs, if no job before it has run here, directly or through
  steps without jobs. Nothing else is reused; a retry of the flow does not take results for what has
  run. A new child flow reuses that of the same run, whatever its end, if no job before it has run
  here; if no job has to run in it, as the script says, it counts as that one.

Work without vcjobs and child flows: `work` has the kinds of which an attempt has no vcjob, such as
approvals, and how each is drawn and answered; `test_own_work` runs the smallest such kind. A child
flow follows a script as a vcjob does (`child_flows`): it runs, succeeds with outputs, fails, is
cancelled by its parent, or is retried with it. A child flow continues while its parent is
suspended, as running vcjobs do.

The reference accepts either answer for: a daemon when everything is aborted, whose vcjob ends when
all other steps have ended, or that could start only then; the reason of a step that was ended
between two attempts; whether a tolerated step stays in a retry that its own timeout ended when the
flow exceeded its own; the kind of Skipped if several apply; the reason of two aborts in the same
second; a forEach without items (Completed or Stopped) at the moment in which the flow stops.

It also allows for knowledge that comes late: a decision is stored first, so its result (no items, a
reference without a value) delays nothing that the same plan creates; an item that is retried is
looked up first, so the next item may exist before it; if pods were read, a Command came between two
plans, or a plan was applied in part, a failure of that moment may not have delayed other creates,
nor the end of all other steps the next attempt of a daemon.
"""
