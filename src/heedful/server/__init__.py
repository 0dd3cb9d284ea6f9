"""The local page of `heedful serve`. Not called `serve`: importing a package of that name would replace the
public function. Needs the extra `serve` (FastAPI, uvicorn)."""
