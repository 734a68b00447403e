"""A bounded interpreter for the Common Expression Language (CEL) of Kubernetes.

Supported: operators, literals and macros of the language definition (google/cel-spec
doc/langdef.md), conversions, functions of timestamps and durations, the functions of texts of
cel-go's extension (`texts`), and our own of lists and maps (`lists`). Not supported: message
literals, a leading dot (`.name`), optional syntax (`a.?b`), user types.

Bounded: brackets nest at most 16 deep, so nothing recurses far (`parser`); patterns of `matches`
are literals that run in linear time (`compiler`); every node, copy and comparison is paid from a
budget of steps and bytes before it happens (`cel/budget.py`), so the same expression over the same
values costs the same on every machine. A result is JSON or a CelError, never another exception.

Stages: text -> `parser` -> `tree` -> `compiler` -> a Python function, which uses
the operators of `values`, the functions of `functions` and the macros of `macros`.
"""
