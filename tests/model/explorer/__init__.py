"""The explorer: every way that a small flow can go, within bounds, by the real `plan`.

Breadth-first from a flow that was just created. A state (`states`) is all there is at one moment:
the objects in the cluster, what the controller has seen of them, and what it remembers. A move
(`moves`) leads from one state to the next: the controller applies its plan, in full or in part;
Volcano moves a vcjob; a watch event arrives; time passes; somebody deletes a vcjob, removes a
template or makes a Command; the controller starts again. What happens seldom has a budget in each
`Configuration`, so the number of states is finite. `cluster` is the API server's side of a plan and
follows `controller/apply/apply.py` and `controller/reconciler.py`; `sight` is what the controller
sees and follows `store/copies.py`. `laws` says what must hold, and why. States that differ only in
when they came about are one state (`keys`). A violation is printed as the shortest story that leads
to it (`story`).

Not part of it: refused creates, names in use by others, vcjobs that take time to be deleted, pods,
and a second controller. tests/core and tests/controller have those.

`make explore` explores all of `configurations` to their end.
"""
