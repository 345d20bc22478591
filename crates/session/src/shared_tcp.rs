//! A client's socket that can be looked at while somebody else reads and writes it: a statement that runs for long has the
//! session's task to itself, and still it should be noticed that its client has left. It does not know sessions.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The socket itself; it closes when this is dropped, whoever watches.
pub struct SharedTcp(Arc<TcpStream>);

/// Sees whether the client is still there, without keeping the socket open.
#[derive(Clone, Debug, Default)]
pub struct Watched(Weak<TcpStream>);

impl SharedTcp {
    /// The only one that keeps the socket open.
    pub fn new(tcp: TcpStream) -> Self {
        SharedTcp(Arc::new(tcp))
    }

    /// For those who look at the connection; it does not keep it open.
    pub fn watched(&self) -> Watched {
        Watched(Arc::downgrade(&self.0))
    }

    /// Waits for bytes and copies them, to be read again; 0: the client has closed.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.peek(buf).await
    }

    /// Waits until there may be something to read.
    pub async fn readable(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.0.poll_read_ready(cx)).await
    }

    /// The client's end of the connection.
    pub fn peer_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.0.peer_addr()
    }
}

impl Watched {
    /// Whether the other side has closed. What it sent before may still be unread (that is why reading can't tell).
    pub fn has_left(&self) -> bool {
        let Some(tcp) = self.0.upgrade() else { return false };
        #[cfg(target_os = "linux")]
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        #[cfg(not(target_os = "linux"))]
        let ends = PollFlags::HUP | PollFlags::ERR;
        let mut fds = [PollFd::new(&*tcp, ends)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0) && fds[0].revents().intersects(ends)
    }
}

impl Watched {
    /// Whoever reads finds the end of the stream; what is written still arrives.
    pub fn read_no_more(&self) {
        if let Some(tcp) = self.0.upgrade() {
            let _ = SockRef::from(&*tcp).shutdown(std::net::Shutdown::Read);
        }
    }
}

impl AsyncRead for SharedTcp {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let free = buf.initialize_unfilled();
            let mut part = None;
            let read = self.0.try_io(Interest::READABLE, || match rustix::io::read(&*self.0, &mut *free)? {
                // Less than there was room for: nothing more is there. Said to the runtime here, as its own streams do,
                // this spares the system call that would find out.
                n if n > 0 && n < free.len() => {
                    part = Some(n);
                    Err(io::ErrorKind::WouldBlock.into())
                }
                n => Ok(n),
            });
            match (part, read) {
                (Some(n), _) | (None, Ok(n)) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                (None, Err(e)) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                (None, Err(e)) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl SharedTcp {
    fn poll_io<T>(&self, cx: &mut Context<'_>, mut io: impl FnMut(&TcpStream) -> io::Result<T>) -> Poll<io::Result<T>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match io(&self.0) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncWrite for SharedTcp {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_io(cx, |tcp| tcp.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, |tcp| tcp.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}
