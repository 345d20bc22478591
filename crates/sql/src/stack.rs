//! How deep a statement may be, and the stack that takes.
//!
//! libpg_query refuses what is nested deeper than PostgreSQL's own `max_stack_depth` allows, so no tree is deeper than
//! some thousand levels. All that is done with a tree afterwards (decoding, walking, cloning, printing, dropping) recurses
//! through it: threads that hold trees have [`THREAD_BYTES`] of stack. It is reserved, not used: a page of it costs memory only
//! after a statement was as deep.

use std::cell::Cell;

/// 10 000 levels of messages at most (libpg_query's `PG_QUERY_PROTOBUF_MAX_DEPTH`): decoding takes 1 kB for each in a
/// release build, 40 kB in one for debugging.
pub const THREAD_BYTES: usize = if cfg!(debug_assertions) { 1 << 30 } else { 128 << 20 };

thread_local! {
    static DEEP: Cell<bool> = const { Cell::new(false) };
}

/// Says of this thread that it was started with a stack of [`THREAD_BYTES`].
pub fn is_deep() {
    DEEP.set(true);
}

/// Runs `f`, which makes trees, on a stack that is large enough. Trees made for a thread whose own is not are given to it only if
/// they are `shallow`; `None` otherwise, and where no thread could be started.
pub fn with_room<T: Send, E: Send>(
    f: impl FnOnce() -> Result<T, E> + Send,
    shallow: impl FnOnce(&T) -> bool + Send,
) -> Option<Result<T, E>> {
    if DEEP.get() {
        return Some(f());
    }
    let run = || Some(f()).filter(|made| made.as_ref().map_or(true, shallow));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(THREAD_BYTES).spawn_scoped(scope, run).ok()?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A thread for work with trees.
pub fn thread<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new().stack_size(THREAD_BYTES).spawn(|| {
        is_deep();
        f()
    })
}
