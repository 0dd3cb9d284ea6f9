"""`heedful.serve`. Importing this file needs none of the packages of the extra `serve`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.core.defaults import HOST, PORT, SERVED_MODELS
from heedful.core.errors import HeedfulError

if TYPE_CHECKING:
    from heedful.server.app import Serving


def serve(
    *models: Any,
    host: str = HOST,
    port: int = PORT,
    runs: str | Path | None = None,
    allow_load: bool = False,
    dictionaries: Mapping[str, Any] | None = None,
    texts: Mapping[str, Any] | None = None,
    open_browser: bool = False,
    block: bool = True,
) -> Serving | None:
    """Open the web page of heedful on this machine.

    Needs the extra `serve`: `pip install 'heedful[serve]'`.

    Parameters
    ----------
    *models
        Models: anything that `heedful.load` takes. Default: "zoo:sentiment" and "zoo:lm".
    host
        Address to listen on. If other machines can reach this address, users need a token, which is printed.
    port
        Port to listen on. If 0, any free port.
    runs
        Folder in which results are stored and from which run folders are opened. If `None`, a temporary
        folder, which is deleted when the server stops.
    allow_load
        Let the web page load other models that are on this machine.
    dictionaries
        A mapping from model name to SAE: a `heedful.SAE` or its folder.
    texts
        A mapping from model name to the texts on which features are read.
    open_browser
        Open the web page in a browser.
    block
        Wait until Ctrl-C. If False, return at once.

    Returns
    -------
    Serving or None
        With `block=False`, an object with `address` and `close()`.

    Examples
    --------
    >>> import heedful
    >>> with heedful.serve("zoo:one-layer", port=0, block=False) as serving:
    ...     serving.address.startswith("http://127.0.0.1:")
    True
    """
    if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
        raise HeedfulError(
            f"the web page needs {' and '.join(missing)}",
            "not installed",
            "Type: pip install 'heedful[serve]'",
        )
    from heedful.server import app
    from heedful.server.security import new_token

    config = app.ServerConfig(
        host=host,
        port=port,
        runs=None if runs is None else Path(runs),
        models=None,
        allow_load=allow_load,
        token=new_token(host),
        dictionaries=dictionaries or {},
        texts=texts or {},
    )
    server = app.prepare(models or SERVED_MODELS, config)
    if not block:
        return app.Serving(server)
    app.run(server, open_browser)
    return None
