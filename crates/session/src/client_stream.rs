//! A byte stream from a client: TCP or TLS over it. It does not know messages.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pool::Liveness;
use socket2::SockRef;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::shared_tcp::{SharedTcp, Watched};

/// For the last few bytes to a client.
const GOODBYE: Duration = Duration::from_millis(500);

/// The client's socket, with or without TLS.
pub enum ClientStream {
    Tcp(SharedTcp),
    Tls(Box<TlsStream<SharedTcp>>),
}

impl ClientStream {
    /// Takes a connection just accepted. Answers leave at once instead of waiting for more (TCP_NODELAY).
    /// A client whose machine vanished (power, cable) is noticed as `liveness` says; until then its session keeps what it holds.
    pub fn new(tcp: TcpStream, liveness: &Liveness) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        liveness.apply(SockRef::from(&tcp))?;
        Ok(ClientStream::Tcp(SharedTcp::new(tcp)))
    }

    /// Ends the connection in good order. TLS wants that said: to a client that waits for the end (as libpq does after a
    /// cancel request), dropping the stream would look like an attack.
    pub async fn close(mut self) {
        // He who has gone or does not listen misses it.
        let _ = tokio::time::timeout(GOODBYE, self.shutdown()).await;
    }

    /// For whoever wants to know when the client leaves.
    pub fn watched(&self) -> Watched {
        match self {
            ClientStream::Tcp(tcp) => tcp.watched(),
            ClientStream::Tls(tls) => tls.get_ref().0.watched(),
        }
    }

    /// Waits until there may be something to read, or nothing any more.
    pub async fn readable(&mut self) -> io::Result<()> {
        match self {
            ClientStream::Tcp(tcp) => tcp.readable().await,
            ClientStream::Tls(tls) => tls.fill_buf().await.map(|_| ()),
        }
    }

    /// Whether what is read and written is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, ClientStream::Tls(_))
    }

    /// Of the TCP connection, under TLS too.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            ClientStream::Tcp(tcp) => tcp.peer_addr(),
            ClientStream::Tls(tls) => tls.get_ref().0.peer_addr(),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Tcp(s) => Pin::new(s).poll_read(cx, buf),
            ClientStream::Tls(s) => Pin::new(s).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ClientStream::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            ClientStream::Tls(s) => Pin::new(s).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            ClientStream::Tcp(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            ClientStream::Tls(s) => Pin::new(s).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            ClientStream::Tcp(s) => s.is_write_vectored(),
            ClientStream::Tls(s) => s.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Tcp(s) => Pin::new(s).poll_flush(cx),
            ClientStream::Tls(s) => Pin::new(s).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ClientStream::Tcp(s) => Pin::new(s).poll_shutdown(cx),
            ClientStream::Tls(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}
