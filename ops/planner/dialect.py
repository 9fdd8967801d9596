"""The SQL of a pipeline: sqlglot's RisingWave dialect and the statements it does not read.

    CREATE SOURCE name WITH (option = 'text' | number | SECRET name, …)
    CREATE TABLE name (* | column type [PRIMARY KEY] [NOT NULL], … [, PRIMARY KEY (…)])
        FROM source TABLE 'schema.table' [WITH (…)]

They become `exp.Create` trees with two nodes of ours, `FromSource` and `SecretRef`. A syntax error
becomes `Unsupported` with the place and the piece of text, unless that piece stands in a WITH list
or is quoted: it could be a password.

Pure.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.risingwave import RisingWaveParser
from sqlglot.tokenizer_core import Token, TokenType

from ops.common.errors import Unsupported

QUOTED = frozenset(
    {
        TokenType.STRING,
        TokenType.BYTE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.HEREDOC_STRING,
        TokenType.RAW_STRING,
        TokenType.UNICODE_STRING,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
    }
)
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_CLOSED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$|(?P<open>'|"|/\*|\$\w*\$)|.""",
    re.DOTALL,
)
_OTHER_CLAUSES = ("APPEND ONLY", "INCLUDE", "FORMAT", "ON CONFLICT", "ENGINE", "AS SELECT")
_OTHER_CONSTRAINTS = ("UNIQUE", "CHECK", "FOREIGN KEY", "EXCLUDE", "LIKE", "WATERMARK FOR")


class FromSource(exp.Property):
    """`FROM source TABLE 'schema.table'`: `this` is the source's name, `value` the table's."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


class SecretRef(exp.Expression):
    """`SECRET name` in the place of an option's value."""


class Misplaced(ParseError):
    """A ParseError that knows its token and quotes nothing of the text."""

    def __init__(self, message: str, token: Token, *, at_end: bool, among_options: bool) -> None:
        super().__init__(message)
        self.token, self.at_end, self.among_options = token, at_end, among_options


class PipelineParser(RisingWaveParser):
    _among_options = False

    def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> NoReturn:
        place = token or self._curr or self._prev
        at_end = not token and not self._curr
        raise Misplaced(message, place, at_end=at_end, among_options=self._among_options)

    def _warn_unsupported(self) -> None:
        """Say nothing: the base class would log the statement, password and all."""

    def _parse_as_command(self, start: Token) -> NoReturn:
        """Refuse what the base class would keep unparsed."""
        self.raise_error("unexpected")

    def _parse_create(self) -> exp.Create | exp.Command:
        if self._match(TokenType.SOURCE):
            return self._parse_create_from("SOURCE")
        if self._match(TokenType.TABLE):
            return self._parse_create_from("TABLE")
        return super()._parse_create()

    def _parse_create_from(self, kind: str) -> exp.Create:
        exists = bool(self._parse_exists(not_=True))
        name: exp.Expr | None = self._parse_table_parts(schema=True)
        properties: list[exp.Expr] = []
        if kind == "TABLE":
            if self._match(TokenType.L_PAREN, advance=False):
                name = exp.Schema(this=name, expressions=self._parse_table_columns())
            self._refuse_clauses()
            if self._match(TokenType.FROM):
                properties.append(self._parse_from_source())
        self._refuse_clauses()
        if self._match(TokenType.WITH):
            properties.extend(self._parse_options())
        self._refuse_clauses()
        return exp.Create(
            this=name, kind=kind, exists=exists, properties=exp.Properties(expressions=properties)
        )

    def _refuse_clauses(self) -> None:
        for words in _OTHER_CLAUSES:
            if self._match_text_seq(*words.split(" "), advance=False):
                self._refuse(words, self._curr)

    def _parse_from_source(self) -> FromSource:
        source = self._parse_name("the name of a source")
        if not self._match(TokenType.TABLE):
            self.raise_error("TABLE 'schema.table' is expected")
        place = self._curr
        if not self._match(TokenType.STRING):
            self.raise_error("the source's table is expected as a quoted text")
        table = exp.Literal.string(place.text).update_positions(place)
        return FromSource(this=source, value=table)

    def _parse_table_columns(self) -> list[exp.Expr]:
        self._match_l_paren()
        if self._match(TokenType.STAR):
            columns: list[exp.Expr] = [exp.Star()]
        else:
            columns = [self._parse_table_column()]
            while self._match(TokenType.COMMA):
                columns.append(self._parse_table_column())
        if not self._match(TokenType.R_PAREN):
            self.raise_error("a comma or ) is expected")
        return columns

    def _parse_table_column(self) -> exp.Expr:
        start = self._curr
        if self._match(TokenType.CONSTRAINT):
            self._parse_name("the name of a constraint")
        if self._match(TokenType.PRIMARY_KEY):
            names = self._parse_wrapped_csv(lambda: self._parse_name("the name of a column"))
            return exp.PrimaryKey(expressions=names).update_positions(start)
        for words in _OTHER_CONSTRAINTS:
            if self._match_text_seq(*words.split(" "), advance=False):
                self._refuse(words, self._curr)
        name = self._parse_name("the name of a column")
        first = self._curr
        kind = self._parse_types(check_func=False, schema=True)
        if kind is None:
            self.raise_error(f"the type of column {name.this} is expected")
        kind.update_positions(start=first.start, end=self._prev.end)
        constraints = list(self._parse_column_rules())
        return exp.ColumnDef(this=name, kind=kind, constraints=constraints)

    def _parse_column_rules(self) -> Iterator[exp.Expr]:
        while self._curr and self._curr.token_type not in {TokenType.COMMA, TokenType.R_PAREN}:
            if self._match(TokenType.PRIMARY_KEY):
                yield exp.PrimaryKeyColumnConstraint().update_positions(self._prev)
            elif self._match_text_seq("NOT", "NULL"):
                yield exp.NotNullColumnConstraint()
            elif not self._match(TokenType.NULL):
                self._refuse(f"{self._curr.text.upper()} on a column", self._curr)

    def _parse_options(self) -> Iterator[exp.Expr]:
        self._among_options = True
        if not self._match(TokenType.L_PAREN):
            self.raise_error("( is expected after WITH")
        while not self._match(TokenType.R_PAREN):
            yield self._parse_option()
            if not self._match(TokenType.COMMA) and (
                not self._curr or self._curr.token_type is not TokenType.R_PAREN
            ):
                self.raise_error("a comma or ) is expected after the value of an option")
        self._among_options = False

    def _parse_option(self) -> exp.Property:
        start, words = self._curr, [self._option_word()]
        while self._match(TokenType.DOT):
            words.append(self._option_word())
        option = ".".join(words).lower()
        if not self._match(TokenType.EQ):
            self.raise_error("= is expected after the name of an option")
        place = self._curr
        value: exp.Expr
        if self._match_set((TokenType.STRING, TokenType.NUMBER)):
            value = exp.Literal.string(place.text)
        elif self._match_text_seq("SECRET"):
            value = SecretRef(this=self._parse_name("the name of a secret"))
        else:
            self.raise_error(f"a quoted text, a number or SECRET name is expected for {option}")
        value.update_positions(place)
        return exp.Property(this=option, value=value).update_positions(start)

    def _option_word(self) -> str:
        word = self._curr
        if not word or word.token_type in QUOTED or not re.fullmatch(r"\w+", word.text):
            self.raise_error("the name of an option is expected")
        self._advance()
        return word.text

    def _parse_name(self, what: str) -> exp.Identifier:
        place = self._curr
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            self.raise_error(f"{what} is expected")
        return name.update_positions(place)

    def _refuse(self, words: str, token: Token) -> NoReturn:
        raise refusal(self.sql, token.start, f"{words} is not supported yet")


class PipelineDialect(RisingWave):
    Parser = PipelineParser


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of `sql`; what is refused in it is refused with its place in the whole text."""

    sql: str
    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        return int(self.tokens[0].start)

    def tree(self) -> exp.Expr:
        parser = PipelineDialect().parser(error_level=ErrorLevel.IMMEDIATE)
        found: exp.Expr | None = None
        try:
            found = parser.parse(list(self.tokens), self.sql)[0]
        except Misplaced as error:
            problem = self._syntax_error(error)
        except ParseError:
            problem = self.refuse("syntax error in this statement", self.start)
        # Raised out here, so that no text of sqlglot's hangs on it as its context.
        if found is None:
            raise problem
        return found

    def refuse(self, what: str, at: int, hint: str = "") -> Unsupported:
        return refusal(self.sql, at, what, hint)

    def text(self, first: Token, last: Token) -> str:
        return self.sql[first.start : last.end + 1]

    def _syntax_error(self, error: Misplaced) -> Unsupported:
        token = error.token
        known = error.args[0] if " is expected" in error.args[0] else ""
        if error.at_end:
            last = self.tokens[-1]
            return self.refuse("syntax error: the statement ends too early", last.end + 1, known)
        hidden = error.among_options or token.token_type in QUOTED
        piece = "" if hidden else f" at {self.text(token, token)!r}"
        return self.refuse(f"syntax error{piece}", token.start, known)


def statements(sql: str) -> list[Statement]:
    """Cut the text at its semicolons."""
    tokens: list[Token] | None = None
    with suppress(TokenError):
        tokens = PipelineDialect().tokenize(sql)
    if tokens is None:
        openings = (m.start() for m in _CLOSED.finditer(sql) if m.group("open"))
        raise refusal(sql, next(openings, 0), "syntax error: a quote or comment is never closed")
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [Statement(sql, tuple(part)) for part in found if part]


def outside_parentheses(tokens: tuple[Token, ...]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens that stand in no parentheses, with their positions; the brackets too."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.token_type in _CLOSING:
            depth -= 1
        if depth == 0:
            yield index, token
        if token.token_type in _OPENING:
            depth += 1


def comma_parts(tokens: tuple[Token, ...], *, stop: TokenType) -> list[tuple[Token, ...]]:
    """Cut a list at the commas outside parentheses, up to the first `stop` out there."""
    parts: list[tuple[Token, ...]] = []
    start = 0
    for index, token in outside_parentheses(tokens):
        after_distinct = index > 0 and tokens[index - 1].token_type is TokenType.DISTINCT
        if token.token_type is stop and not after_distinct:  # IS DISTINCT FROM ends no list
            return [*parts, tokens[start:index]]
        if token.token_type is TokenType.COMMA:
            parts.append(tokens[start:index])
            start = index + 1
    return [*parts, tokens[start:]]


def refusal(sql: str, at: int, what: str, hint: str = "") -> Unsupported:
    line = sql.count("\n", 0, at) + 1
    return Unsupported(what, line=line, column=at - sql.rfind("\n", 0, at), hint=hint)
