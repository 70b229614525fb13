"""The keys of the screen Fleet, each declared once."""

from __future__ import annotations

from gputop.widgets.key import Key, note

TABS = ("odd", "groups", "figures", "links", "nodes")
"""In the order of their number keys."""
ABOUT = {
    "odd": "what is found, the most harmful first, with the nodes it is about",
    "groups": "equal nodes, and how the others differ",
    "figures": "a strip for each measured figure, every node a cell",
    "links": "pairs of nodes: by rail and by leaf switch, and what is at fault",
    "nodes": "every node by name, the worst first",
}
FLEET_KEYS = (
    *(
        Key(
            str(number),
            f"tab('{name}')",
            help=f"{name.capitalize()}: {ABOUT[name]}",
            command=name.capitalize(),
            about=ABOUT[name].capitalize(),
        )
        for number, name in enumerate(TABS, start=1)
    ),
    Key("up,k", "move(-1)", help="select a row", written="↑ ↓  Home End"),
    Key("down,j", "move(1)"),
    Key("home", "move(-10000000)"),
    Key("end", "move(10000000)"),
    Key("pageup", "page(-1)"),
    Key("pagedown,space", "page(1)", help="a page down or up", written="PgUp PgDn"),
    Key("tab", "next_tab(1)", help="next tab, previous tab", written="Tab  ⇧Tab"),
    Key("shift+tab", "next_tab(-1)"),
    Key(
        "enter,right",
        "open_row",
        "open",
        "list the nodes of the row; on a node: open it with all its screens",
        written="Enter",
        command="Open",
        about="The nodes of the row, or the node",
    ),
    Key("escape,left", "step_back", help="back", written="Esc"),
    Key(
        "y",
        "copy",
        "copy",
        "copy the line that drains its nodes in Slurm; again: the next one",
        command="Copy",
        about="The line that drains the nodes of the row",
    ),
    Key(
        "Y",
        "copy_drains",
        help="copy the drain lines of all broken and missing nodes",
        command="Copy all drain lines",
        about="For broken and missing nodes",
    ),
    Key(
        "ampersand",
        "filter",
        "filter",
        "filter the nodes: g[1-16], or words such as slow, a rule, a model",
        command="Filter",
        about="Nodes by a list or by words",
    ),
    Key("J", "scroll_details(3)", help="scroll the panel", written="J K"),
    Key("K", "scroll_details(-3)"),
    note("click", "once selects, twice opens; a cell of the map lists its nodes"),
)
COMMON_FLEET = (
    Key(
        "x", "app.export", "export", "write the screen as SVG to this folder",
        command="Export", about="Write a picture to this folder",
    ),
    Key("t", "app.choose_theme", "theme", "theme", command="Theme", about="Choose the colours"),
    Key(
        "slash,ctrl+p", "app.command_palette", "find",
        "find commands, nodes, findings, figures", written="/  Ctrl+P",
    ),
    Key(
        "question_mark", "app.help", "keys", "these keys; draw the screen again",
        written="?  Ctrl+L", command="Keys", about="Show the keys",
    ),
    Key("q", "app.quit", "quit", "quit; suspend; fg in the shell comes back", written="q  Ctrl+Z",
        command="Quit", about="Leave gputop"),
    Key("ctrl+z", "app.suspend_process"),
)  # fmt: skip
