"""A hundred names that clients and operators may choose, each of which has broken some program that shows names."""

_CONTROLS = tuple(f"a{chr(code)}b" for code in (*range(32), 0x7F, 0x80, 0x85, 0x9B, 0x9D))
_FORMATS = ("\u202eevil", "\u200bzero", "\ufeffbom", "\u2028line", "\u2029paragraph", "\U000e0001tag", "\u00adsoft")
_TERMINAL = ("\x1b]0;owned\x07", "\x1b[2J", "\x1b]52;c;ZXZpbA==\x07", "\x9b31m", "red\x1b[31m", "over\rwritten")
_SHELL = (
    "$(id)",
    "`id`",
    "a;b",
    "a b",
    "a'b",
    'a"b',
    "a\\b",
    "-rf",
    "--help",
    "a|b",
    "a&b",
    "a>b",
    "*",
    "~",
    "$HOME",
    "!1",
    "",
)
_MARKUP = (
    "<b>",
    "</script>",
    "<img src=x onerror=alert(1)>",
    "&lt;",
    "a&amp;b",
    "[bold]x[/bold]",
    "[/]",
    "{{ .Value }}",
    "{x}",
    "%s",
    "%(a)s",
    "{0}",
)
_URLS = ("a/b", "a%2Fb", "a%252Fb", "..", ".", "a?b=c", "a#b", "x%41", "%", "%zz", "http://x/y", "a+b")
_PROMETHEUS = ("it's", 'say "x"', "back\\slash", "a\\", "}", "{group=~'.*'}", "a,b", "$__all", "${x}", "a|b.*")
_NUMBERS = ("0", "-1", "1e9", "orders-3", "orders-\u00b2", "null", "true", "NaN", "=1+1", "@x", "\u0665")
NAMES = tuple(
    dict.fromkeys(
        name
        for names in (
            _CONTROLS,
            _FORMATS,
            _TERMINAL,
            _SHELL,
            _MARKUP,
            _URLS,
            _PROMETHEUS,
            _NUMBERS,
            ("é", "日本", "x" * 300),
        )
        for name in names
        if name
    )
)
