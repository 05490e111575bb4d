class JMESPathError(ValueError): ...

class ParseError(JMESPathError):
    lex_position: int | None
    def __init__(self, lex_position: int, token_value: object, token_type: str, msg: str = ...) -> None: ...

class IncompleteExpressionError(ParseError): ...

class LexerError(ParseError):
    message: str
    def __init__(
        self, lexer_position: int, lexer_value: str, message: str, expression: str | None = ...
    ) -> None: ...

class JMESPathTypeError(JMESPathError):
    function_name: str
    current_value: object
    actual_type: str
    expected_types: list[str]
