"""A theme: what it leaves out comes from the default one."""

THEME = {
    "name": "example-midnight",
    "colors": {"primary": "#88c0d0", "background": "#101418"},
    "variables": {"good": "#a3be8c", "bad": "#bf616a"},
}
