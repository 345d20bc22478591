//! A byte stream to a node: TCP, Unix socket or TLS, as the target wants it. It does not know messages beyond the one
//! byte that answers an SSLRequest.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::PoolError;
use crate::target::{NodeTarget, TlsMode};
use crate::tls;

pub(crate) enum NodeStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Whether any of a node's hosts takes a connection within the limit, whatever it would say then.
pub async fn is_anybody_at(target: &NodeTarget, limit: Duration) -> bool {
    let mut asked = JoinSet::new();
    for host in target.candidates() {
        let takes = async move {
            match host.is_unix() {
                true => UnixStream::connect(host.socket()).await.is_ok(),
                false => TcpStream::connect((&*host.host, host.port)).await.is_ok(),
            }
        };
        asked.spawn(tokio::time::timeout(limit, takes));
    }
    asked.join_all().await.into_iter().any(|takes| takes == Ok(true))
}

/// Connects, and negotiates TLS. Bounded only by the caller's timeout.
pub(crate) async fn dial(target: &NodeTarget) -> Result<NodeStream, PoolError> {
    let failed = |source| PoolError::Connect { node: target.to_string(), source };
    if target.is_unix() {
        return Ok(NodeStream::Unix(UnixStream::connect(target.socket()).await.map_err(failed)?));
    }
    let tcp = TcpStream::connect((&*target.host, target.port)).await.map_err(failed)?;
    tcp.set_nodelay(true).map_err(failed)?;
    target.liveness.apply(SockRef::from(&tcp)).map_err(failed)?;
    negotiate_tls(tcp, target).await
}

async fn negotiate_tls(mut tcp: TcpStream, target: &NodeTarget) -> Result<NodeStream, PoolError> {
    let failed = |reason: String| PoolError::Tls { node: target.to_string(), reason };
    let Some(config) = tls::client_config(&target.tls).map_err(failed)? else {
        return Ok(NodeStream::Tcp(tcp));
    };
    let mut request = BytesMut::new();
    wire::startup::put_ssl_request(&mut request);
    let lost = |source| PoolError::Connect { node: target.to_string(), source };
    tcp.write_all(&request).await.map_err(lost)?;
    // Exactly one byte: whatever came behind it in the clear, from anybody, is left to the TLS handshake, which
    // fails on it.
    match tcp.read_u8().await.map_err(lost)? {
        b'S' => {}
        b'N' if target.tls == TlsMode::Prefer => return Ok(NodeStream::Tcp(tcp)),
        b'N' => return Err(failed("the node does not support TLS, but tls mode requires it".into())),
        _ => return Err(failed("unexpected answer to the request for TLS".into())),
    }
    let name = ServerName::try_from(target.host.clone()).map_err(|e| failed(e.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, tcp).await.map_err(|e| failed(e.to_string()))?;
    Ok(NodeStream::Tls(Box::new(stream)))
}

impl NodeStream {
    /// Whether nobody on a network can listen: then a password may be sent as it is.
    pub fn is_private(&self) -> bool {
        match self {
            NodeStream::Unix(_) | NodeStream::Tls(_) => true,
            NodeStream::Tcp(tcp) => tcp.peer_addr().is_ok_and(|a| match a.ip() {
                IpAddr::V4(ip) => ip.is_loopback(),
                IpAddr::V6(ip) => ip.is_loopback(),
            }),
        }
    }

    fn socket(&self) -> SockRef<'_> {
        match self {
            NodeStream::Tcp(tcp) => SockRef::from(tcp),
            NodeStream::Unix(unix) => SockRef::from(unix),
            NodeStream::Tls(tls) => SockRef::from(tls.get_ref().0),
        }
    }

    /// A second handle of the same socket: who holds it can end the connection.
    pub fn handle(&self) -> io::Result<Socket> {
        self.socket().try_clone()
    }

    /// Whether there is something to read, asking the system and not the runtime; `None` if the peer has closed.
    pub fn waits(&self) -> Option<bool> {
        match self.socket().peek(&mut [MaybeUninit::uninit()]) {
            Ok(0) => None,
            Ok(_) => Some(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Some(false),
            Err(_) => None,
        }
    }

    /// What goes over it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, NodeStream::Tls(_))
    }
}

// tokio's own poll functions try the system call first and wait only if it would block.
impl AsyncRead for NodeStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            NodeStream::Tcp(s) => Pin::new(s).poll_read(cx, buf),
            NodeStream::Unix(s) => Pin::new(s).poll_read(cx, buf),
            NodeStream::Tls(s) => Pin::new(s).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            NodeStream::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            NodeStream::Unix(s) => Pin::new(s).poll_write(cx, buf),
            NodeStream::Tls(s) => Pin::new(s).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            NodeStream::Tcp(s) => Pin::new(s).poll_flush(cx),
            NodeStream::Unix(s) => Pin::new(s).poll_flush(cx),
            NodeStream::Tls(s) => Pin::new(s).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            NodeStream::Tcp(s) => Pin::new(s).poll_shutdown(cx),
            NodeStream::Unix(s) => Pin::new(s).poll_shutdown(cx),
            NodeStream::Tls(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}
