"""The explorer: all possible histories of a small flow, within bounds, with the real `plan`.

Breadth-first from a flow that was just created. A state (`states`) is everything at one moment:
the objects in the cluster, their copies in the controller, and its memory. A move
(`moves`) leads from one state to the next: the controller applies its plan, in full or in part;
Volcano moves a vcjob; a watch event arrives; time passes; a user deletes a vcjob, removes a
template or creates a Command; the controller restarts. Each `Configuration` has a budget of rare
events, so the number of states is finite. `cluster` is the API server's side of a plan and
follows `controller/apply/apply.py` and `controller/reconciler.py`; `sight` has the copies
of the controller and follows `store/copies.py`. A child flow is a job with a state
of its own (`families`). `laws` and `family_laws` have the properties that must hold, with
reasons. States that differ only in their times are one state (`keys`). A violation is printed with
the shortest sequence of moves that leads to it.

The explorer omits refused creates, names in use by others, vcjobs that take time to be deleted,
pods, and a second controller. tests/core and tests/controller have those.

`make explore` explores all of `configurations` to their end.
"""
