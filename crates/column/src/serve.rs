//! Takes connections, as many as there may be, and finds the one that a cancel request means. It does not know what is said on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::BytesMut;
use parking_lot::Mutex;
use rand::random;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use wire::{ErrorFields, sqlstate};

use crate::login::{Came, Door};
use crate::read::Reads;
use crate::session::Session;

/// Clients at a time, those who log in included.
pub const CONNECTIONS_MAX: usize = 64;
/// Others at a time, who are told that there are too many, or ask for something to be cancelled.
const MORE_MAX: usize = 64;

struct Listed {
    /// Of four bytes, as protocol 3.0 has it.
    secret: [u8; 4],
    cancel: Arc<Notify>,
}

struct Server {
    door: Door,
    reads: Reads,
    sessions: Mutex<HashMap<i32, Listed>>,
    room: Semaphore,
    next_pid: AtomicI32,
}

/// For as long as the process lives.
pub async fn serve(listener: TcpListener, reads: Reads) -> std::io::Result<()> {
    let server = Arc::new(Server {
        door: Door::new(&reads.shared.config),
        reads,
        sessions: Mutex::default(),
        room: Semaphore::new(CONNECTIONS_MAX),
        next_pid: AtomicI32::new(1),
    });
    let all = Arc::new(Semaphore::new(CONNECTIONS_MAX + MORE_MAX));
    loop {
        let Ok(place) = all.clone().acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = server.clone();
                tokio::spawn(async move {
                    let _ = server.client(stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, say.
                tracing::warn!("a connection could not be taken: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

impl Server {
    async fn client(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut rbuf, mut out) = (BytesMut::with_capacity(4 << 10), BytesMut::with_capacity(4 << 10));
        match self.door.let_in(&mut stream, &mut rbuf, &mut out).await? {
            Came::Nobody => return Ok(()),
            Came::Cancel { pid, secret } => {
                if let Some(listed) = self.sessions.lock().get(&pid).filter(|listed| secret == listed.secret) {
                    listed.cancel.notify_waiters();
                }
                return Ok(());
            }
            Came::Client => {}
        }
        let Ok(_room) = self.room.try_acquire() else {
            ErrorFields::fatal(sqlstate::TOO_MANY_CONNECTIONS, "sorry, too many clients already").put(&mut out, b'E');
            return stream.write_all_buf(&mut out).await;
        };
        let pid = self.next_pid.fetch_add(1, Ordering::Relaxed);
        let (secret, cancel) = (random::<[u8; 4]>(), Arc::new(Notify::new()));
        self.sessions.lock().insert(pid, Listed { secret, cancel: cancel.clone() });
        let session = Session { stream, rbuf, out, reads: self.reads.clone(), cancel };
        let ended = session.run(pid, &secret).await;
        self.sessions.lock().remove(&pid);
        ended
    }
}
