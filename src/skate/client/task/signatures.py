"""Signatures, to check the arguments of a call in the calling process.

A worker would find a mistake too, but a round trip later and far from the faulty line. Nearly all calls have only
positional arguments. A `Signature` keeps the minimum and maximum number of those, and accepts a call within these
bounds without further checks. All other calls are bound in full.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    # Name, kind, and the default as text (None: required).
    Parameter = tuple[str, int, str | None]
    Parameters = tuple[Parameter, ...]

_UNBOUNDED = 1 << 62

# Python's hooks for the creation of classes and instances; `of_class` reads the constructor.
_NOT_OFFERED = frozenset(
    {"__init__", "__new__", "__init_subclass__", "__class_getitem__", "__subclasshook__"}
)

# The kinds of inspect.Parameter as numbers, so that unpickling a Signature does not import inspect.
_POSITIONAL_ONLY, _EITHER, _ANY_NUMBER, _KEYWORD_ONLY, _ANY_KEYWORD = range(5)


class Signature:
    """The parameters of a remote function, class or method. It is small and quick to pickle, because handles include it.

    `least` and `most` bound a call with positional arguments only; `most` is -1 if such a call is impossible,
    because a keyword-only argument is required.
    """

    __slots__ = ("_call", "_name", "_parameters", "least", "most")

    def __init__(self, name: str, call: str, parameters: Parameters | None) -> None:
        self._name = name
        self._call = call
        # None: the parameters are unknown, so all arguments are accepted.
        self._parameters = parameters
        self.least = 0
        self.most = _UNBOUNDED
        if parameters is not None:
            positional = [p for p in parameters if p[1] <= _EITHER]
            self.least = sum(default is None for _, _, default in positional)
            if any(kind == _KEYWORD_ONLY and default is None for _, kind, default in parameters):
                self.most = -1
            elif not any(kind == _ANY_NUMBER for _, kind, _ in parameters):
                self.most = len(positional)

    def __reduce__(self) -> tuple[type[Signature], tuple[str, str, Parameters | None]]:
        return Signature, (self._name, self._call, self._parameters)

    def __repr__(self) -> str:
        return f"Signature({self._name}{self})"

    def __str__(self) -> str:
        return "(...)" if self._parameters is None else _as_text(self._parameters)

    @property
    def name(self) -> str:
        """The name of the callable: "f", "Actor.method"."""
        return self._name

    def positional_names(self) -> list[str]:
        """Return the names of the positional parameters in order, or an empty list if unknown."""
        return [name for name, kind, _ in self._parameters or () if kind <= _EITHER]

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
        """Raise TypeError if the callable does not accept these arguments. Their values are not used."""
        if not kwargs and self.least <= len(args) <= self.most:
            return
        if self._parameters is not None:
            self._bind(self._parameters, len(args), kwargs or {})

    def check_bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError, worded like that of `inspect`, if a graph node cannot pass these arguments."""
        if self._parameters is None:
            return
        import inspect  # takes 10 ms; only graphs need it

        kinds = list(inspect._ParameterKind)
        parameters = [
            inspect.Parameter(
                name, kinds[kind], default=inspect.Parameter.empty if default is None else default
            )
            for name, kind, default in self._parameters
        ]
        try:
            inspect.Signature(parameters).bind(*args, **kwargs)
        except TypeError as error:
            name = self._name.rpartition(".")[2]
            raise TypeError(
                f"{error}. The function `{name}` has a signature `{self}`, but the given arguments to `bind` doesn't match. "
                f"args: {list(args)!r:.200}, kwargs: {dict(kwargs)!r:.200}"
            ) from None

    def _bind(self, parameters: Parameters, given: int, kwargs: Mapping[str, Any]) -> None:
        positional = [p for p in parameters if p[1] <= _EITHER]
        if given > len(positional) and not any(kind == _ANY_NUMBER for _, kind, _ in parameters):
            raise self._error(_too_many(given, positional, self.least))
        by_position_only = {name for name, kind, _ in positional if kind == _POSITIONAL_ONLY}
        by_keyword = {name for name, kind, _ in parameters if kind in (_EITHER, _KEYWORD_ONLY)}
        any_keyword = any(kind == _ANY_KEYWORD for _, kind, _ in parameters)
        for name, kind, _ in positional[:given]:
            if kind == _EITHER and name in kwargs:
                raise self._error(f"got {name!r} twice, by position and by keyword")
        missing = [
            name
            for name, kind, default in (
                *positional[given:],
                *(p for p in parameters if p[1] == _KEYWORD_ONLY),
            )
            if default is None and (name not in kwargs or kind == _POSITIONAL_ONLY)
        ]
        unknown = [] if any_keyword else [name for name in kwargs if name not in by_keyword]
        if unknown:
            if unknown[0] in by_position_only:
                raise self._error(f"takes {unknown[0]!r} by position only, but it was given by keyword")
            raise self._error(_unknown_keyword(unknown[0], missing or sorted(by_keyword)))
        if missing:
            names = ", ".join(map(repr, missing))
            count = "an argument" if len(missing) == 1 else "arguments"
            whole = self._error(f"is missing {count}: {names}")
            raise TypeError(f"{whole} (missing a required argument: {missing[0]!r})")

    def _error(self, what: str) -> TypeError:
        return TypeError(f"{self._name}() {what}; called as {self._call}, it takes {self}")


def _too_many(given: int, positional: list[Parameter], least: int) -> str:
    most = len(positional)
    number = str(most) if least == most else f"{least} to {most}"
    names = f" ({', '.join(name for name, _, _ in positional)})" if positional else ""
    takes = f"takes {number} positional argument{'' if number == '1' else 's'}{names}"
    return f"{takes} but {given} {'was' if given == 1 else 'were'} given (too many positional arguments)"


def _unknown_keyword(name: str, candidates: Sequence[str]) -> str:
    # Costs 4 ms to import; only an error needs it.
    import difflib

    near = difflib.get_close_matches(name, candidates, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"got an unexpected keyword argument {name!r}{hint}"


def _as_text(parameters: Parameters) -> str:
    """Return the parameters as written in a ``def`` line, without annotations."""
    parts = []
    starred = False
    for position, (name, kind, default) in enumerate(parameters):
        if kind == _KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or kind == _ANY_NUMBER
        stars = {_ANY_NUMBER: "*", _ANY_KEYWORD: "**"}.get(kind, "")
        shown = "" if default is None or stars else f"={default}"
        parts.append(f"{stars}{name}{shown}")
        next_kind = parameters[position + 1][1] if position + 1 < len(parameters) else _ANY_KEYWORD
        if kind == _POSITIONAL_ONLY and next_kind != _POSITIONAL_ONLY:
            parts.append("/")
    return f"({', '.join(parts)})"


# ---------------------------------------------------------------- reading signatures


def of_function(function: Callable[..., Any], name: str | None = None) -> Signature:
    """Return the signature of a remote function. If it is unknown, it accepts all arguments."""
    name = name or _name_of(function)
    return Signature(name, f"{name}.remote(...)", _read(function))


def of_class(cls: type, name: str | None = None) -> Signature:
    """Return the signature of an actor class's constructor."""
    name = name or _name_of(cls)
    return Signature(name, f"{name}.remote(...)", _constructor(cls))


def of_method(function: Callable[..., Any], class_name: str, name: str, *, bound: bool = False) -> Signature:
    """Return the signature of an actor's method for its callers, without ``self``.

    `bound` is True if `function` has no ``self`` to drop: a static or class method, or one already bound.
    """
    parameters = _read(function)
    if parameters is not None and not bound:
        parameters = _without_first(parameters)
    return Signature(f"{class_name}.{name}", f"actor.{name}.remote(...)", parameters)


def of_methods(cls: type) -> dict[str, Signature]:
    """Return the signatures of the methods that handles to actors of this class have, by name."""
    signatures: dict[str, Signature] = {}
    for name in dir(cls):
        static = _static_attribute(cls, name)
        if name in _NOT_OFFERED or static is object.__dict__.get(name, _NOT_OFFERED):
            continue
        bound = isinstance(static, (staticmethod, classmethod))
        function = getattr(cls, name, None)
        # A class stored as an attribute is callable, but it is not a method.
        if callable(function) and not isinstance(function, type):
            signatures[name] = of_method(function, cls.__name__, name, bound=bound)
    return signatures


def _name_of(target: Any) -> str:
    # functools.partial and instances with __call__ have no name of their own.
    inner = getattr(target, "func", None)
    name = getattr(target, "__name__", None) or getattr(inner, "__name__", None) or type(target).__name__
    return str(name)


def _static_attribute(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def _read(function: Callable[..., Any]) -> Parameters | None:
    # Costs 10 ms to import; a process that defines no remote function does not need it.
    import inspect

    try:
        # The parameters of a decorated function are those of its wrapper, or those of the wrapped function
        # if the wrapper is `def wrapper(*args, **kwargs)`.
        parameters = _parameters(inspect.signature(function, follow_wrapped=False))
        if hasattr(function, "__wrapped__") and [p[1] for p in parameters] == [_ANY_NUMBER, _ANY_KEYWORD]:
            return _parameters(inspect.signature(function))
        return parameters
    except (ValueError, TypeError):
        # Many C functions have no signature. The worker reports wrong arguments.
        return None


def _parameters(spec: inspect.Signature) -> Parameters:
    return tuple(
        (p.name, int(p.kind), None if p.default is p.empty else _default_text(p.default))
        for p in spec.parameters.values()
    )


def _default_text(default: object) -> str:
    # Other reprs run the user's code, and may be long.
    if default is None or isinstance(default, (bool, int, float, str)):
        shown = repr(default)
        if len(shown) <= 40:
            return shown
    return "..."


def _without_first(parameters: Parameters) -> Parameters:
    return parameters[1:] if parameters and parameters[0][1] <= _EITHER else parameters


def _constructor(cls: type) -> Parameters | None:
    """Return the parameters of ``__init__``, or else of ``__new__``, without ``self``."""
    if type(cls).__call__ is not type.__call__:
        # A metaclass with its own __call__ may accept anything.
        return None
    for name in ("__init__", "__new__"):
        maker = _static_attribute(cls, name)
        if maker is object.__dict__[name]:
            continue
        if isinstance(maker, (staticmethod, classmethod)):
            maker = maker.__func__
        parameters = _read(maker)
        return None if parameters is None else _without_first(parameters)
    return ()
