"""The quotient of two numerics with as many digits as Postgres gives it.

Postgres takes numbers as digits to the base 10,000. Its quotient has at least 16 significant
digits, counted in whole base digits from a guess of the quotient's first one:

    weight  w(x) = position of the first base digit of x that is not 0; first f(x) = that digit
    guess   q = w(a) - w(b), one less where f(a) <= f(b)
    digits  after the point: max(16 - 4 q, digits of a, digits of b, 0), rounded half away from 0

The result is kept as numeric(38,18), as any numeric without precision is. To round once and not
twice, the division is done with more digits than are kept wherever 38 of them leave room.

Pure.
"""

from decimal import ROUND_HALF_UP, Context, Decimal

_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
_KEPT = 18


def quotient(a: Decimal, b: Decimal, *, digits: int) -> Decimal:
    """Return the quotient as Postgres rounds it, cut to the 18 digits that are kept."""
    if a == 0:
        return Decimal(0)
    (weight_a, first_a), (weight_b, first_b) = _first_digit(a), _first_digit(b)
    guess = weight_a - weight_b - (first_a <= first_b)
    places = max(16 - 4 * guess, digits, 0)
    exact = _EXACT.divide(a, b)
    rounded = exact.quantize(Decimal(1).scaleb(-places), context=_EXACT)
    return rounded.quantize(Decimal(1).scaleb(-_KEPT), context=_EXACT)


def _first_digit(x: Decimal) -> tuple[int, int]:
    """Return the weight of a number and its first digit to the base 10,000."""
    weight = x.adjusted() // 4
    return weight, int(_EXACT.scaleb(abs(x), -4 * weight))


def quotient_sql(a: str, b: str, *, scale: int, digits: int) -> str:
    """Return the quotient; `scale` is that of the wider one, `digits` what both print at most."""
    wide = f"DECIMAL(38,{scale})"
    pair = f"named_struct('a', CAST({a} AS {wide}), 'b', CAST({b} AS {wide}))"
    sized = (
        f"x -> named_struct('a', {_size('x.a', wide)}, 'b', {_size('x.b', wide)}, "
        "'minus', (x.a < 0) <> (x.b < 0))"
    )
    guessed = (
        "x -> named_struct('a', x.a, 'b', x.b, 'minus', x.minus, 'q', "
        f"{_weight('x.a', scale)} - {_weight('x.b', scale)} - "
        f"CASE WHEN {_first('x.a', scale)} <= {_first('x.b', scale)} THEN 1 ELSE 0 END)"
    )
    rounded = _rounded(scale, digits)
    negative = f"CAST({_ZERO} - {rounded} AS DECIMAL(38,18))"
    value = f"x -> CASE WHEN x.minus THEN {negative} ELSE {rounded} END"
    chain = f"array({pair})"
    for step in (sized, guessed):
        chain = f"transform({chain}, {step})"
    # A NULL on either side is no element at all, and 0 below is the division's own error.
    result = f"element_at(transform({chain}, {value}), 1)"
    return (
        f"CASE WHEN ({a}) IS NULL OR ({b}) IS NULL THEN CAST(NULL AS DECIMAL(38,18)) "
        f"WHEN ({b}) = 0 THEN CAST(1 / ({b}) AS DECIMAL(38,18)) "
        f"WHEN ({a}) = 0 THEN {_ZERO} ELSE {result} END"
    )


_ZERO = "CAST(0 AS DECIMAL(38,18))"


def _size(x: str, wide: str) -> str:
    return f"CAST(CASE WHEN {x} < 0 THEN CAST(0 AS {wide}) - {x} ELSE {x} END AS {wide})"


def _weights(scale: int) -> list[int]:
    """Return the weights a number of 38 digits with this scale can have, the greatest first."""
    top = (38 - scale - 1) // 4
    return list(range(top, -((scale + 3) // 4) - 1, -1))


def _power(exponent: int, scale: int) -> str:
    if exponent >= 0:
        return f"CAST('1{'0' * exponent}' AS DECIMAL({exponent + 1},0))"
    return f"CAST('0.{'0' * (-exponent - 1)}1' AS DECIMAL({max(-exponent, scale)},{-exponent}))"


def _weight(x: str, scale: int) -> str:
    whens = " ".join(f"WHEN {x} >= {_power(4 * w, scale)} THEN {w}" for w in _reachable(scale))
    return f"(CASE {whens} ELSE {_weights(scale)[-1]} END)"


def _first(x: str, scale: int) -> str:
    """Return the first base digit of a number."""
    whens = " ".join(
        f"WHEN {x} >= {_power(4 * w, scale)} THEN {_digit(x, w)}" for w in _reachable(scale)
    )
    return f"(CASE {whens} ELSE {_digit(x, _weights(scale)[-1])} END)"


def _reachable(scale: int) -> list[int]:
    """The last weight may lie below the scale's last digit: it is what is left over."""
    return [w for w in _weights(scale)[:-1] if 4 * w >= -scale]


def _digit(x: str, weight: int) -> str:
    if weight >= 0:
        return f"CAST(floor({x} / {_power(4 * weight, 0)}) AS INT)"
    return f"CAST(floor({x} * {_power(-4 * weight, 0)}) AS INT)"


def _rounded(scale: int, digits: int) -> str:
    small = 18 - scale // 2
    tiny = _scaled(small, max(24, digits))
    below_one = _scaled(small, max(20, digits))
    middle = [
        f"WHEN x.q = {q} AND x.a < {_power(28 - scale, scale)} "
        f"THEN {_scaled(9, max(16 - 4 * q, digits))}"
        for q in (0, 1)
    ]
    large = [f"WHEN x.q = {q} THEN {_plain(max(16 - 4 * q, digits))}" for q in (0, 1, 2, 3)]
    rest = f"ELSE {_plain(digits)}"
    whens = f"WHEN x.q < -1 THEN {tiny} WHEN x.q = -1 THEN {below_one}"
    return f"CASE {whens} {' '.join(middle)} {' '.join(large)} {rest} END"


def _plain(digits: int) -> str:
    # Every branch has the same type: Spark would widen others at the cost of their last digits.
    return f"CAST(round(x.a / x.b, {min(18, digits)}) AS DECIMAL(38,18))"


def _scaled(shift: int, digits: int) -> str:
    """Return a / b rounded to `digits`, divided with `shift` digits more than 18."""
    places = max(0, min(18, digits - shift))
    divided = f"round((x.a * {_power(shift, 0)}) / x.b, {places})"
    return f"CAST({divided} * {_power(-shift, shift)} AS DECIMAL(38,18))"
