"""The model test: flows carried through by `plan` and judged by an interpreter that knows nothing
of it.

`reference` is that interpreter. It is written from docs/reference.md alone, keeps its own books,
goes over every step again and again until nothing changes any more, and knows no status, no View
and no action. `acting` has vcjobs that live as a script says, `random_flows` draws flows and
scripts, `carrying` lets `plan` carry a flow through in simulated time and asks the reference, at
every moment at which nothing more is to be done: were the right vcjobs made, in an order that may
be, with the right names, templates, items and nodes; has every step ended that had to, as it had
to; and in the end, has the flow.

Where that page leaves something open, the reference takes a reading, or takes either answer and
goes on from the one that it sees. The readings, many of them those of docs/decisions (runs,
policies-of-a-flow, skips-and-stop, commands-and-cancel):

- A step is begun once it has had a vcjob. Its failure is known when the step has ended, so a
  forEach of which an item has failed has not failed before the items that have begun are over.
- An item that has begun goes on with its attempts although another has failed for good, and keeps
  its place of `forEach.parallelism` between two of them. With `continueOnFailure` on the step, or
  `failurePolicy: Continue`, the items that have not begun begin too; otherwise they do not.
- A run of a repeat that failed for good fails the step; `until` is not asked.
- retry counts for each run (item, repeat) by itself. A timeout of the step is a failure like
  others. A create that is refused, or a reference without a value, is not tried again: there was
  no vcjob. A retry command gives a new `limit`.
- An error in `until` or `retry.when`: the step is Failed, reason ExpressionError.
- A forEach or repeat has been Running once one of its vcjobs has. After a retry command only what
  has been made since counts.
- A vcjob that was to be aborted and completes all the same has completed, with its outputs. One
  that fails leaves those that watched pods show; its pods are not read. One that a suspension was
  to abort, and that is Failed or Terminated instead, has failed by itself.
- What ends when the flow is cancelled or out of time, be it in that very second, is not asked
  whether to try again.
- What sets off an abort by the failure policy is not aborted by it.
- Decisions are made once the dependencies are met, in a stopped flow too: where `when` does not
  hold, the step is NotTaken and not Stopped, whatever came first. forEach over nothing is Stopped
  in a stopped flow.
- A failure with continueOnFailure satisfies Running too.
- A daemon that is between two attempts when all others are over has completed (DaemonEnded),
  though the flow is suspended.
- Nothing is decided while a flow is suspended; one of which all steps are over by then ends.
- Of a daemon its dependants want Running, where they do not say anything else.
- Under Abort a step that a stopped flow may start (its own condition is Failed or Finished, or it
  is behind such a step) is never aborted. Steps of `finally` are aborted by AbortJob alone.
- `flow.phase` in `finally` is what the flow would be by its other steps, Succeed or Failed.
- What is not begun when a flow is cancelled or out of time is Stopped, or what it is known to be.
- A retry command leaves Completed items, and the repeats before the one that failed; a repeat of
  which none failed begins again, and so do all items if `from` looks at a step that runs again. A
  daemon that was ended with its flow runs again if a step behind it, near or far, does.
- Any other Command on a flow for which it makes no sense does nothing.

Either answer is taken: what becomes of a daemon when everything is aborted, of one
whose vcjob ends just when all others are over, and of one that could start only then; what reason
has a step that was between two attempts when it was ended; what kind of Skipped is a step for which
more than one is true; which of two reasons to abort that come in the same second is told; whether a
forEach over nothing has completed or is Stopped in the very moment in which the flow stops.

What a plan knows late is allowed for: what was decided about a step is written first, and what it
comes to (no items, a reference without a value) holds up nothing that is made by that plan; an item
that is retried is looked up first, and the next may be there before it; where pods had to be read,
a Command came between two plans or a plan was carried out in part, what fails at that moment may
not have held up what was made.
"""
