"""Steps that run a Python function: its source is the program of a container, which needs nothing
but Python 3. Values that are known now are written into it, those of the run are its arguments."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Unpack

from jobflow.api.labels import NOT_COMPARED
from jobflow.authoring.objects.expressions import Expr, has_expr, has_reference, to_cel
from jobflow.authoring.objects.faults import Place, caller, display_name, ends_at_caller, refuse
from jobflow.authoring.objects.returns import find_outputs
from jobflow.authoring.objects.steps import Step, StepList
from jobflow.core.suggest import Suggester, did_you_mean

if TYPE_CHECKING:  # a name of a type only
    from jobflow.authoring.objects.fields import StepFields

P = ParamSpec("P")
# Image of functions that name none.
IMAGE = "python:3.12-alpine"
# Bytes of the source of a function; a program on a command line can have 128 KiB.
MAX_SOURCE = 65_536
_BUILTINS = frozenset(dir(builtins))
# Names that Python sets in the bodies of classes, and `__name__`.
_CLASS_NAME = re.compile("__(?!file).*__")
_INNER_TYPES = re.compile(r"\[[^\[\]]*\]")
# Types of parameters that take no texts.
_NO_TEXTS = frozenset(
    "int float bool None list dict tuple List Dict Tuple Sequence Mapping Iterable".split()
)
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_STORES = frozenset({"STORE_GLOBAL", "STORE_NAME", "DELETE_NAME"})
# The arguments of the program are the source of the function, its place in a file, its call, and
# values of the run as NAME=VALUE. A flow that reuses results compares neither program nor place.
_PROGRAM = """\
# Written by jobflow.authoring: arguments in, outputs out. Tracebacks have lines of the file.
import __future__, json, os, sys


def main(source, place, call, *later):
    file, line = json.loads(place.partition("\\n")[2])
    name, values, texts, boxed = json.loads(call)
    flags = __future__.annotations.compiler_flag
    globals = {"__name__": "__main__"}
    exec(compile("\\n" * (line - 1) + source, file, "exec", flags, dont_inherit=True), globals)
    try:
        for argument in later:
            key, _, text = argument.partition("=")
            try:
                values[key] = text if key in texts else json.loads(text)
            except ValueError:
                values[key] = text
            if key in boxed:
                [values[key]] = values[key]
        result = globals[name](**values)
        outputs = result if isinstance(result, dict) else {"result": result}
        for key, value in outputs.items():
            try:
                json.dumps({key: value}, allow_nan=False)
            except (TypeError, ValueError) as error:
                why = "NaN and infinity are not allowed" if "float" in str(error) else error
                sys.exit(f"{name} returned no JSON in {key!r}: {why}")
        text = json.dumps(outputs, ensure_ascii=False).encode(errors="replace")
        if len(text) > 4096:
            sys.exit(f"{name} returned {len(text)} bytes; at most 4096 are allowed")
        if result is not None:
            write(text)
    except (Exception, SystemExit) as error:
        has_text = isinstance(error, SystemExit)
        why = error.code if has_text else f"{type(error).__name__}: {error}"
        if isinstance(why, str):
            write(" ".join(why.split())[:256].rstrip(":").encode(errors="replace"))
        raise


def write(text):
    with open(os.environ.get("TERMINATION_LOG") or "/dev/termination-log", "wb") as log:
        log.write(text)


main(*sys.argv[1:])
"""


@dataclass(frozen=True, slots=True)
class Joined:
    """A text that ends with a value of the run."""

    text: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a function, without its decorators."""

    name: str
    text: str
    file: str
    line: int
    """The line of the file with `def`."""
    indent: int = 0
    """Columns of the file to the left of the text."""

    @property
    def short_file(self) -> str:
        """The file as tracebacks name it: without its folder, which differs between machines."""
        shown = display_name(self.file)
        return shown if shown.startswith("<") else Path(shown).name

    def place(self, line: int = 1) -> Place:
        return Place(self.file, self.line + line - 1)

    def place_of(self, at: dis.Positions | None) -> Place:
        """Return the place of a name in the text, which is compiled below one line of imports."""
        if at is None or at.lineno is None:
            return self.place()
        place = self.place(at.lineno - 1)
        if at.col_offset is None or at.end_col_offset is None:
            return place
        line = self.text.splitlines()[at.lineno - 2].encode()
        before, name = line[: at.col_offset], line[at.col_offset : at.end_col_offset]
        column = self.indent + len(before.decode()) + 1
        return replace(place, column=column, width=len(name.decode()))


class TaskFunction(Generic[P]):
    """A function that a flow can run. A call adds a step to the flow; arguments may be items,
    params and outputs of other steps. `task.function` is the function itself."""

    def __init__(
        self,
        body: StepList,
        function: Callable[P, Any],
        name: str | None,
        fields: StepFields,
        place: Place,
        *,
        is_finally: bool = False,
    ) -> None:
        self.function = function
        self._body = body
        self._name = name
        self._fields = fields
        self._place = place
        self._is_finally = is_finally
        self._source, definition = read_function(function)
        self._outputs = find_outputs(function, definition)
        self._is_called = False
        body._functions.append(self)

    def __getattr__(self, name: str) -> Any:
        call = f"{self.__dict__.get('function', self).__name__}(...)"
        raise AttributeError(f"a function has no {name}: call it, the step is what {call} returns")

    def __rshift__(self, other: object) -> Any:
        raise TypeError(f"call {self.function.__name__}(...) first: >> orders what it returns")

    __rrshift__ = __lshift__ = __rlshift__ = __rshift__

    def options(self, name: str | None = None, **fields: Unpack[StepFields]) -> TaskFunction[P]:
        """Return the function with another name of its step, or other fields."""
        merged: Any = {**self._fields, **fields}
        self._is_called = True  # or its variant is reported
        return TaskFunction(
            self._body,
            self.function,
            name or self._name,
            merged,
            caller(),
            is_finally=self._is_finally,
        )

    @ends_at_caller
    def __call__(self, *args: Any, **kwargs: Any) -> Step:
        """Add a step that runs the function with these arguments."""
        place = caller()
        # Checked here, so that the traceback shows the call and not the run.
        signature = inspect.signature(self.function)
        for key in [each for each in kwargs if each not in signature.parameters]:
            guess = did_you_mean(Suggester([*signature.parameters]).nearest(key))
            raise TypeError(f'{self._source.name}: there is no argument "{key}"{guess}')
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self._source.name}: {error}") from None
        # Steps have names of DNS-1123, without underscores and capitals.
        name = self._name or self._source.name.strip("_").replace("_", "-").lower()
        values = {key: (each, self._place.argument(key)) for key, each in self._fields.items()}
        places = place.all_arguments(signature.parameters)
        known = {
            key: self._json(key, each, places.get(key, place))
            for key, each in bound.items()
            if not has_expr(each) and not (isinstance(each, str) and has_reference(each))
        }
        written = self._program(bound, known)
        container = dict(self._fields.get("container") or {})
        image = values.pop("image", (None,))[0] or container.get("image", IMAGE)
        container |= {"image": image, "command": ["python3", "-c"], "args": written}
        values["container"] = (container, place)
        # Two calls of a function make two steps; a name that the user gave stays.
        if self._name is None:
            taken = {step.name for step in (*self._body._steps, *self._body._finally)}
            numbered = (f"{name}-{number}" for number in count(2))
            name = next(each for each in chain([name], numbered) if each not in taken)
        step = self._body._add(name, values, place, is_finally=self._is_finally)
        step._function = self
        step._arguments = {
            key: (each, places.get(key, place)) for key, each in {**bound, **known}.items()
        }
        self._is_called = True
        return step

    def _program(
        self, arguments: Mapping[str, Any], known: Mapping[str, Any]
    ) -> list[str | Joined]:
        """Return the program and its arguments: values that are known only when the flow runs."""
        later: list[str | Joined] = []
        hints = self.function.__annotations__
        # Only an annotation says that 007 is a text.
        texts = [name for name in arguments if hints.get(name) in (str, "str")]
        boxed: list[str] = []
        for name, value in arguments.items():
            # An f-string with an expression is a text with a reference.
            if name not in known and isinstance(value, str):
                later.append(f"{name}={value}")
                texts.append(name)
            elif name not in known:
                whole = value if isinstance(value, Expr) else Expr(to_cel(value), level=0)
                if name not in texts and may_be_text(hints.get(name)):
                    boxed.append(name)  # in a list, a text has quotes
                    whole = Expr(to_cel([whole]))
                later.append(Joined(f"{name}=", whole))
        source = self._source
        place_of = json.dumps([source.short_file, source.line])
        call = json.dumps([source.name, known, [*dict.fromkeys(texts)], boxed])
        fixed = (NOT_COMPARED + _PROGRAM, source.text, NOT_COMPARED + place_of, call)
        # they arrive unchanged, although JobFlow and Kubernetes replace `$(…)`
        return [*(each.replace("$", "$$").replace("$$(", "$$$(") for each in fixed), *later]

    def _json(self, name: str, value: object, place: Place) -> Any:
        if isinstance(value, Step):
            refuse(place, f"{name}: pass {value.name}.result or {value.name}.outputs.NAME")
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            refuse(place, f"{name} is no value of JSON, so the step cannot have it: {error}")
        if has_reference(text):
            refuse(place, f"{name}: pass an f-string as an argument of its own, or write an "
                   'expression such as "model-" + cel.string(index)')  # fmt: skip
        return json.loads(text)


def may_be_text(hint: object) -> bool:
    """Return whether a parameter with this annotation takes texts."""
    if hint is None or hint is inspect.Parameter.empty:
        return True
    words = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    outer = words
    while outer != (outer := _INNER_TYPES.sub("", outer)):
        pass
    return any(each.strip().rpartition(".")[2] not in _NO_TEXTS for each in outer.split("|"))


def read_function(function: Callable[..., Any]) -> tuple[Source, ast.FunctionDef]:
    """Return the source of a function, also parsed. Raises InvalidFlow if it cannot run alone."""
    name, code = getattr(function, "__name__", "?"), getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        refuse(caller(), f"{name} is no plain function: define it with `def`")
    place = Place(code.co_filename, code.co_firstlineno)
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        refuse(place, f"the source of {name} cannot be read: define it in a file or a notebook")
    try:
        [node] = ast.parse(textwrap.dedent("".join(lines))).body
    except (SyntaxError, ValueError):
        refuse(place, f"{name} cannot be sent: define it with `def` at the beginning of a line")
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        refuse(place, f"{name} is no plain function: define it with `def`")
    text = "\n".join(
        textwrap.dedent("".join(lines)).splitlines()[node.lineno - 1 : node.end_lineno]
    )
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = Source(name, text, place.file, first + node.lineno - 1, indent)
    _check(source, node)
    return source, node


def _check(source: Source, node: ast.FunctionDef) -> None:
    name, size = source.name, len(source.text.encode())
    if size > MAX_SOURCE:
        refuse(source.place(), f"{name} has {size} bytes; at most {MAX_SOURCE} fit: use an image")
    if len(node.decorator_list) > 1:
        refuse(source.place(), f"{name} has other decorators, which are not sent: remove them")
    own = node.args
    if own.vararg or own.kwarg or own.posonlyargs:
        refuse(source.place(), f"{name} has *, ** or / parameters: give each parameter a name")
    # Compiled as it will run, and not taken from the function, which knows more than its source.
    code = compile(f"from __future__ import annotations\n{source.text}", source.file, "exec")
    codes = [*_codes(code)]
    if any(each.co_flags & inspect.CO_GENERATOR for each in codes if each.co_name == name):
        refuse(source.place(), f"{name} is a generator: return the values instead")
    steps = [step for each in codes for step in dis.get_instructions(each)]
    # A name that it sets itself, by `global` or in the body of a class, is known too.
    known = _BUILTINS | {step.argval for step in steps if step.opname in _STORES}
    loads = [step for step in steps if step.opname in _LOADS and step.argval not in known]
    unknown = [step for step in loads if not _CLASS_NAME.fullmatch(str(step.argval))]
    if unknown:
        names = ", ".join(found := [*dict.fromkeys(str(each.argval) for each in unknown)])
        it, one = ("it", "a parameter") if len(found) == 1 else ("them", "parameters")
        refuse(
            source.place_of(unknown[0].positions),
            f"{name} uses {names}, which it does not define: import or define {it} inside the "
            f"function, or make {it} {one}",
        )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
