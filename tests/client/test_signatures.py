"""Signatures: a call that Python would reject is rejected at the call, with a message that names the function."""

import contextlib
import functools
import inspect
import itertools
import pickle
import re
import subprocess
import sys

import pytest

from skate.client.task import signatures


def nothing():
    pass


def plain(a, b):
    pass


def defaults(a, b=2, c="x"):
    pass


def variadic(a, *rest):
    pass


def anything(*args, **kwargs):
    pass


def keyword_only(a, *, key):
    pass


def keyword_optional(a, *, key=1):
    pass


def positional_only(a, b=1, /, c=2):
    pass


def positional_only_and_any_keyword(a, /, **kwargs):
    pass


def everything(a, b=2, /, c=3, *rest, d, e=5, **kwargs):
    pass


async def coroutine(a, b):
    pass


def generator(a, b):
    yield a, b


async def async_generator(a, b):
    yield a, b


FUNCTIONS = [
    nothing,
    plain,
    defaults,
    variadic,
    anything,
    keyword_only,
    keyword_optional,
    positional_only,
    positional_only_and_any_keyword,
    everything,
    coroutine,
    generator,
    async_generator,
]


def accepted_by_python(function, args, kwargs):
    # Compare with the call itself: inspect's bind() is wrong about positional-only names before Python 3.13.
    try:
        made = function(*args, **kwargs)
    except TypeError:
        return False
    if inspect.iscoroutine(made):
        made.close()
    return True


@pytest.mark.parametrize("function", FUNCTIONS)
def test_exactly_the_calls_that_python_refuses_are_refused(function):
    names = ("a", "b", "c", "d", "e", "key", "other")
    signature = signatures.of_function(function)
    message = re.compile(rf"{function.__name__}\(\) .*{function.__name__}\.remote", re.DOTALL)
    for count in range(6):
        for size in range(len(names) + 1):
            for keywords in itertools.combinations(names, size):
                args, kwargs = tuple(range(count)), dict.fromkeys(keywords)
                refusal = ""
                try:
                    signature.check(args, kwargs)
                except TypeError as error:
                    refusal = str(error)
                    assert message.match(refusal)
                assert accepted_by_python(function, args, kwargs) is not bool(refusal), (
                    args,
                    kwargs,
                    refusal,
                )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_parameters_print_as_in_the_def_line(function):
    assert str(signatures.of_function(function)) == str(inspect.signature(function))


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "text"),
    [
        (
            plain,
            (1, 2, 3),
            {},
            "plain() takes 2 positional arguments (a, b) but 3 were given (too many positional arguments); "
            "called as plain.remote(...), "
            "it takes (a, b)",
        ),
        (nothing, (1,), {}, "nothing() takes 0 positional arguments but 1 was given"),
        (defaults, (1, 2, 3, 4), {}, "takes 1 to 3 positional arguments (a, b, c) but 4 were given"),
        (plain, (), {}, "plain() is missing arguments: 'a', 'b'"),
        (plain, (1,), {}, "plain() is missing an argument: 'b'"),
        (keyword_only, (1,), {}, "is missing an argument: 'key'"),
        (keyword_only, (1,), {"kay": 1}, "got an unexpected keyword argument 'kay' (did you mean 'key'?)"),
        (plain, (1,), {"zzz": 1}, "got an unexpected keyword argument 'zzz'; called"),
        (plain, (1,), {"a": 1}, "got 'a' twice, by position and by keyword"),
        (positional_only, (), {"a": 1}, "takes 'a' by position only, but it was given by keyword"),
        (positional_only_and_any_keyword, (), {"a": 1}, "is missing an argument: 'a'"),
    ],
)
def test_messages(function, args, kwargs, text):
    with pytest.raises(TypeError) as error:
        signatures.of_function(function).check(args, kwargs)
    assert text in str(error.value)


@pytest.mark.parametrize("count", range(5))
def test_the_two_numbers_decide_plain_calls(count):
    for function in FUNCTIONS:
        signature = signatures.of_function(function)
        accepted = True
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            accepted = False
        assert (signature.least <= count <= signature.most) is accepted


def test_arguments_are_never_looked_at():
    class Touchy:
        def __eq__(self, other):
            raise AssertionError("compared")

        def __repr__(self):
            raise AssertionError("printed")

    with pytest.raises(TypeError, match="3 were given"):
        signatures.of_function(plain).check((Touchy(), Touchy(), Touchy()))


def test_partials_take_what_is_left():
    signature = signatures.of_function(functools.partial(plain, 1))
    signature.check((2,))
    with pytest.raises(TypeError, match=r"plain\(\) takes 1 positional argument \(b\) but 2 were given"):
        signature.check((2, 3))


def test_a_wrapper_that_passes_everything_on_takes_what_it_wraps():
    @functools.wraps(plain)
    def wrapper(*args, **kwargs):
        return plain(*args, **kwargs)

    with pytest.raises(TypeError, match="plain"):
        signatures.of_function(wrapper).check((1,))


def test_a_wrapper_with_arguments_of_its_own_takes_those():
    @functools.wraps(plain)
    def wrapper(only):
        return plain(only, only)

    signatures.of_function(wrapper).check((1,))
    with pytest.raises(TypeError, match=r"\(only\)"):
        signatures.of_function(wrapper).check((1, 2))


@pytest.mark.parametrize("function", [max, int, dict, type])
def test_callables_that_do_not_tell_take_anything(function):
    signature = signatures.of_function(function)
    signature.check((1, 2, 3), {"x": 1})
    assert str(signature) == "(...)"


def test_callable_objects_are_named_by_their_class():
    class Adder:
        def __call__(self, a):
            pass

    with pytest.raises(TypeError, match=r"Adder\(\) is missing an argument: 'a'"):
        signatures.of_function(Adder()).check(())


def test_a_default_is_shown_only_when_it_is_short_and_plain():
    class Secret:
        def __repr__(self):
            raise AssertionError("printed")

    def function(a=Secret(), b="y" * 500, c=None, d=(1, 2)):
        pass

    assert str(signatures.of_function(function)) == "(a=..., b=..., c=None, d=...)"


# ---------------------------------------------------------------- classes and methods


class Base:
    attribute = int

    def __init__(self, a, b=1):
        pass

    def method(self, x):
        pass

    @staticmethod
    def static(x):
        pass

    @classmethod
    def of_class(cls, x):
        pass

    async def coroutine(self, x):
        pass

    def without_self(*args):
        pass

    @property
    def prop(self):
        return 1

    def __call__(self, x):
        pass


class Derived(Base):
    def method(self, x, y):
        pass


def test_a_class_takes_what_its_constructor_takes():
    signature = signatures.of_class(Derived)
    signature.check((1,))
    signature.check((), {"a": 1, "b": 2})
    with pytest.raises(
        TypeError, match=r"Derived\(\) is missing an argument: 'a'; called as Derived\.remote"
    ):
        signature.check(())


def test_a_class_without_a_constructor_takes_nothing():
    class Empty:
        pass

    signatures.of_class(Empty).check(())
    with pytest.raises(TypeError, match=r"Empty\(\) takes 0 positional arguments but 1 was given"):
        signatures.of_class(Empty).check((1,))


def test_a_class_with_only_new_takes_what_new_takes():
    class Made:
        def __new__(cls, a):
            return super().__new__(cls)

    signatures.of_class(Made).check((1,))
    with pytest.raises(TypeError, match="missing an argument: 'a'"):
        signatures.of_class(Made).check(())


def test_a_class_made_by_a_metaclass_of_its_own_takes_anything():
    class Meta(type):
        def __call__(cls, *args):
            return None

    class Odd(metaclass=Meta):
        def __init__(self):
            pass

    signatures.of_class(Odd).check((1, 2, 3))


def test_methods_lose_self_and_only_self():
    methods = signatures.of_methods(Derived)
    assert set(methods) == {"method", "static", "of_class", "coroutine", "without_self", "__call__"}
    assert {name: str(one) for name, one in methods.items()} == {
        "method": "(x, y)",
        "static": "(x)",
        "of_class": "(x)",
        "coroutine": "(x)",
        "without_self": "(*args)",
        "__call__": "(x)",
    }
    with pytest.raises(TypeError, match=r"Derived\.method\(\) is missing .* called as actor\.method\.remote"):
        methods["method"].check((1,))


# ---------------------------------------------------------------- on the way


@pytest.mark.parametrize("function", [*FUNCTIONS, max])
def test_a_signature_survives_pickling(function):
    signature = signatures.of_function(function)
    copy = pickle.loads(pickle.dumps(signature))
    assert repr(copy) == repr(signature)
    assert (copy.least, copy.most) == (signature.least, signature.most)
    with contextlib.suppress(TypeError):
        signature.check((), {"other": 1})
        copy.check((), {"other": 1})


def test_checking_a_received_signature_needs_no_inspect():
    packed = pickle.dumps(signatures.of_function(everything))
    program = (
        "import pickle, sys\n"
        f"signature = pickle.loads({packed!r})\n"
        "signature.check((1,), {'d': 1})\n"
        "try:\n    signature.check(())\n"
        "except TypeError as e:\n    print(e)\n"
        "print('inspect' in sys.modules)\n"
    )
    # -S: site packages of the test machine may import inspect themselves.
    source = next(path for path in signatures.__spec__.loader.path.split("skate/client") if path)
    run = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {source!r})\n{program}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.splitlines()[0].startswith("everything() is missing arguments: 'a', 'd'")
    assert run.stdout.splitlines()[1] == "False"
