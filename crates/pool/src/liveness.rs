//! How soon it is noticed that the machine at the other end of a connection is gone: TCP's own questions and limits. It does
//! not know who is at the other end. A process that hangs while its machine answers is not found out this way.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// As PostgreSQL's `tcp_keepalives_idle`, `tcp_keepalives_interval`, `tcp_keepalives_count` and `tcp_user_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// Silence before the first question.
    pub idle: Duration,
    pub interval: Duration,
    /// Unanswered questions after which the connection is lost.
    pub count: u32,
    /// How long what was sent may remain unacknowledged; zero leaves that to the system (some 15 minutes). A peer that
    /// lives but does not read for so long is lost too. Linux only.
    pub user_timeout: Duration,
}

impl Liveness {
    /// For nodes: a minute of silence, three of unacknowledged data (one that waits for a lock does not read COPY data).
    pub const NODE: Liveness = Liveness {
        idle: Duration::from_secs(30),
        interval: Duration::from_secs(10),
        count: 3,
        user_timeout: Duration::from_secs(180),
    };
    /// For clients: who looks at a page of a long result does not read for as long as he likes.
    pub const CLIENT: Liveness = Liveness {
        idle: Duration::from_secs(60),
        interval: Duration::from_secs(10),
        count: 3,
        user_timeout: Duration::ZERO,
    };

    /// Sets them on a TCP socket; `Err`: the system refuses one of them.
    pub fn apply(&self, socket: SockRef<'_>) -> io::Result<()> {
        let keepalive = TcpKeepalive::new().with_time(self.idle).with_interval(self.interval).with_retries(self.count);
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        if !self.user_timeout.is_zero() {
            socket.set_tcp_user_timeout(Some(self.user_timeout))?;
        }
        Ok(())
    }
}

impl Default for Liveness {
    fn default() -> Self {
        Liveness::NODE
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for wanted in [Liveness::NODE, Liveness::CLIENT] {
            let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let socket = SockRef::from(&tcp);
            wanted.apply(SockRef::from(&tcp)).unwrap();
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), wanted.idle);
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), wanted.interval);
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), wanted.count);
            let limit = (!wanted.user_timeout.is_zero()).then_some(wanted.user_timeout);
            assert_eq!(socket.tcp_user_timeout().unwrap(), limit);
        }
    }
}
