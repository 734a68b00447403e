"""The model test: flows carried through by `plan` and judged by an interpreter that knows nothing
of it.

`reference` is that interpreter. It is written from DESIGN §1 and §2 alone, keeps its own books,
goes over every step again and again until nothing changes any more, and knows no status, no View
and no action. `acting` has vcjobs that live as a script says, `random_flows` draws flows and
scripts, `carrying` lets `plan` carry a flow through in simulated time and asks the reference, at
every moment at which nothing more is to be done: were the right vcjobs made, in an order that may
be, with the right names, templates, items and nodes; has every step ended that had to, as it had
to; and in the end, has the flow.

Where DESIGN leaves something open, the reference takes a reading, or takes either answer and goes
on from the one that it sees. The readings:

- A step is begun once it has had a vcjob. Its failure is known when the step has ended, so a
  forEach of which an item has failed has not failed before the items that have begun are over.
- An item that has begun goes on with its attempts although another has failed for good.
- A run of a repeat that failed for good fails the step; `until` is not asked.
- retry counts for each run (item, repeat) by itself. A timeout of the step is a failure like
  others. A create that is refused is none: there was no vcjob. A retry command gives a new
  `limit`.
- An error in `until` or `retry.when`: the step is Failed, reason ExpressionError.
- A forEach or repeat has been Running once one of its vcjobs has.
- A vcjob that was to be aborted and completes all the same has completed.
- Decisions are made once the dependencies are met, in a stopped flow too: where `when` does not
  hold, the step is NotTaken and not Stopped, whatever came first.
- A failure with continueOnFailure satisfies Running too.
- Of a daemon its dependants want Running, where they do not say anything else.
- Under Abort a step that a stopped flow may start is not aborted for a failure before its start.
- `flow.phase` in `finally` is what the flow would be, Succeed or Failed.
- What is not begun when a flow is cancelled or out of time is Stopped, or what it is known to be.

Either answer is taken: whether steps are decided while the flow is suspended; whether a suspended
flow with nothing left to start ends; what becomes of finally steps that run when the flow is
cancelled or out of time; what becomes of a daemon when everything is aborted, and of one that
could start only when all others are over; what reason has a step that was between two attempts
when it was ended; what kind of Skipped is a step for which more than one is true.
"""
