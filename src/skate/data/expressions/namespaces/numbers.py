"""Mathematics: methods of every expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.data.datatype import DataType

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class Mathematics:
    """Functions of numbers. The result is NaN where a function is undefined."""

    def _call(self, title: str, function: Any, *options: Any, **named: Any) -> Expr:
        raise NotImplementedError

    def abs(self) -> Expr:
        """Return the absolute value."""
        return self._call("abs", "abs_checked")

    def negate(self) -> Expr:
        """Return the negated number."""
        return self._call("negate", "negate_checked")

    def sign(self) -> Expr:
        """Return the sign: -1, 0 or 1."""
        return self._call("sign", "sign")

    def ceil(self) -> Expr:
        """Round up to an integer."""
        return self._call("ceil", "ceil")

    def floor(self) -> Expr:
        """Round down to an integer."""
        return self._call("floor", "floor")

    def round(self) -> Expr:
        """Round to the nearest integer, ties to even."""
        return self._call("round", "round")

    def trunc(self) -> Expr:
        """Drop the fractional part."""
        return self._call("trunc", "trunc")

    def exp(self) -> Expr:
        """Return e to the power of the number."""
        return self._call("exp", "exp")

    def ln(self) -> Expr:
        """Return the natural logarithm."""
        return self._call("ln", "ln")

    def log10(self) -> Expr:
        """Return the logarithm to base 10."""
        return self._call("log10", "log10")

    def log2(self) -> Expr:
        """Return the logarithm to base 2."""
        return self._call("log2", "log2")

    def power(self, exponent: Any) -> Expr:
        """Raise to the power of a number or an expression."""
        return self._call("power", "power", exponent)

    def sin(self) -> Expr:
        """Return the sine of an angle in radians."""
        return self._call("sin", "sin")

    def cos(self) -> Expr:
        """Return the cosine of an angle in radians."""
        return self._call("cos", "cos")

    def tan(self) -> Expr:
        """Return the tangent of an angle in radians."""
        return self._call("tan", "tan")

    def asin(self) -> Expr:
        """Return the arc sine in radians."""
        return self._call("asin", "asin")

    def acos(self) -> Expr:
        """Return the arc cosine in radians."""
        return self._call("acos", "acos")

    def atan(self) -> Expr:
        """Return the arc tangent in radians."""
        return self._call("atan", "atan")

    def cast(self, target_type: Any, *, safe: bool = True) -> Expr:
        """Convert to another type; values that do not fit raise with `safe`, and are truncated without it."""
        if isinstance(target_type, DataType) and target_type.is_python_type():
            raise TypeError(
                f"Python-type-backed DataType ({target_type!r}) requires values to find its Arrow type, and cast() has none; "
                f"write DataType.int64() or the like"
            )
        kind = target_type if isinstance(target_type, DataType) else None
        if kind is None and not isinstance(target_type, str):
            kind = DataType.from_dtype(target_type)
        if kind is None:
            raise TypeError(
                f"target_type must be a ray.data.datatype.DataType, got: {type(target_type).__name__}; "
                f"write DataType.int64() or the like"
            )
        return self._call("cast", "cast", kind.to_arrow_dtype(), safe=safe)
