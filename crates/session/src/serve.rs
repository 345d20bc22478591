//! From an accepted socket to the end of its session. The loop over the client's messages is here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::sqlstate;

use exec::{ExecError, Found};
use pool::Settings;
use tokio::net::TcpStream;
use wire::{ErrorFields, Frame};

use crate::activity::Activity;
use crate::apart;
use crate::cancel_forward;
use crate::client_io::ClientIo;
use crate::client_stream::ClientStream;
use crate::login::{self, LoggedIn, Opening, Roles};
use crate::router::Router;
use crate::router_settings::RouterSettings;
use crate::session::{Result, Session, Turn};

/// What the texts of values mean, which go from node to node, with PostgreSQL's defaults. Like the search path, by which
/// names are planned, every connection of the session has what home has for it at login: whatever the nodes'
/// configurations say, and whatever becomes of the role's settings.
const VALUES: [(&str, &str); 8] = [
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "GMT"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    ("array_nulls", "on"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
];
/// What was set for the client's role and database, and not by the client: it stays with the session as the client's own do,
/// whatever becomes of the role. What only a superuser may set is made by each connection for itself. What the router asks of
/// every connection hides what the role or the database asks.
const ROLE_SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings \
     WHERE source OPERATOR(pg_catalog.=) ANY ('{database,user,database user}'::pg_catalog.text[]) AND context OPERATOR(pg_catalog.=) 'user' \
       AND name OPERATOR(pg_catalog.<>) ALL ('{client_encoding,search_path}'::pg_catalog.text[]) \
     UNION ALL SELECT 'client_connection_check_interval', \
     (SELECT pg_catalog.split_part(c, '=', 2) FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c \
       WHERE pg_catalog.split_part(c, '=', 1) OPERATOR(pg_catalog.=) 'client_connection_check_interval' \
         AND (s.setrole OPERATOR(pg_catalog.=) '0' OR s.setrole OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) session_user)) \
         AND (s.setdatabase OPERATOR(pg_catalog.=) '0' OR s.setdatabase OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())) \
       ORDER BY s.setrole OPERATOR(pg_catalog.<>) '0' DESC, s.setdatabase OPERATOR(pg_catalog.<>) '0' DESC LIMIT 1)";

/// Serves one connection to its end.
pub async fn serve(stream: TcpStream, router: Arc<Router>) {
    let Some(place) = router.doors.log_in() else {
        return turn_away(
            stream,
            &router,
            &ErrorFields::fatal(sqlstate::TOO_MANY_CONNECTIONS, "too many logins at once"),
        )
        .await;
    };
    let opening = Box::pin(login::open(stream, &router.login, &HomeRoles(router.clone()))).await;
    match opening {
        Ok(Opening::Session(mut client)) => {
            drop(place);
            let limit = client.role.as_ref().map(|role| role.connection_limit);
            let _place = match router.doors.enter(&client.user, limit) {
                Ok(place) => place,
                Err(fields) => return login::refuse(&mut client.stream, &fields).await,
            };
            let counted = Counted::new(&router);
            let result = session(*client, router.clone()).await;
            drop(counted);
            if let Err(e) = result {
                tracing::debug!(error = %e, "session ended");
            }
        }
        Ok(Opening::Cancel { pid, secret, stream }) => {
            cancel_forward::cancel(&router, pid, &secret).await;
            // Its end tells the client that the cancel was delivered.
            stream.close().await;
            // Anybody may ask for it, and it can cost a question to home and connections: it keeps its place among logins.
            drop(place);
        }
        // Refused logins are logged where they are refused.
        Ok(Opening::Closed) | Err(_) => {}
    }
}

/// A session while it lasts. One that panics ends alone: its task is unwound, what it held is closed, and it is counted here.
struct Counted<'a>(&'a Router);

impl<'a> Counted<'a> {
    fn new(router: &'a Router) -> Self {
        router.metrics.connections.fetch_add(1, Ordering::Relaxed);
        router.metrics.connections_total.fetch_add(1, Ordering::Relaxed);
        Counted(router)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        if std::thread::panicking() {
            self.0.metrics.panics.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Says why to a client that is not let in, if it listens.
pub async fn turn_away(stream: TcpStream, router: &Router, fields: &ErrorFields) {
    if let Ok(mut stream) = ClientStream::new(stream, &router.login.liveness) {
        login::refuse(&mut stream, fields).await;
    }
}

/// Roles as home has them.
struct HomeRoles(Arc<Router>);

impl Roles for HomeRoles {
    async fn find(&self, user: &str) -> std::result::Result<Option<Found>, pool::PoolError> {
        self.0.herd.roles.find(user).await
    }
}

async fn session(client: LoggedIn, router: Arc<Router>) -> Result<()> {
    let registration = router.cancels.register(client.protocol);
    registration.handle.watch(client.stream.watched());
    let shown = Activity::new(
        &client.user,
        client.role.as_ref().map(|r| r.word.oid),
        &client.database,
        client.stream.peer_addr().ok(),
    );
    registration.handle.show(shown.clone());
    let mut startup = Settings::default();
    let ignored = ["client_encoding"];
    for (name, value) in client.parameters.iter().filter(|(n, _)| !ignored.contains(&n.as_str())) {
        startup.set(name, value);
    }
    if startup.get("application_name").is_none() {
        // Not the router's own name.
        startup.set("application_name", "");
    }
    shown.rename(startup.get("application_name").unwrap_or(""), startup.fingerprint());
    let io = ClientIo::new(client.stream, client.rbuf, router.limits.message_bytes_max, registration.handle.clone());
    let epoch = router.herd.epoch.load_full();
    let login = match &client.role {
        Some(role) => router.herd.pools.admit(&role.word, client.secret),
        None => router.herd.pools.admit_unseen(&client.user, client.secret),
    };
    let mut session = Session {
        io,
        login,
        database: client.database,
        settings: startup.clone(),
        startup,
        named_roles: Default::default(),
        pending: vec![],
        own: RouterSettings::default(),
        transaction: Default::default(),
        epoch,
        own_schema: false,
        own_due: false,
        loaded_at: 0,
        after_commit: vec![],
        pin: Default::default(),
        pins: 0,
        shown,
        pg_temp: Default::default(),
        temporary: vec![],
        statements: Default::default(),
        allowance: exec::Allowance::of(&router.budget),
        memory: router.herd.memory.another(),
        large_statements: false,
        portals: Default::default(),
        prepared: Default::default(),
        cursors: Default::default(),
        template: Default::default(),
        row_way: None,
        search_path: vec![],
        path_word: Default::default(),
        context: 0,
        taint: false,
        code: None,
        id: registration.pid as u64,
        sharing: Default::default(),
        sequences: Default::default(),
        bulk: exec::Bulk { session: registration.pid, ..Default::default() },
        now: None,
        batch: false,
        numbering: 0,
        turn: Turn::Ready,
        router: router.clone(),
    };
    session.refresh_sharing();
    session.refresh_context();
    session.transaction.home = Some(session.epoch.snapshot.home);
    let greeted = Box::pin(session.greet(client.role.as_ref(), registration.pid, &registration.secret)).await;
    let (mut session, result) = match greeted {
        Ok(()) => match converse(session).await {
            Some(ended) => ended,
            None => return Err(ExecError::internal("a session ended in a panic")),
        },
        Err(e) => (session, Err(e)),
    };
    Box::pin(session.end(&result)).await;
    drop(registration);
    result
}

/// All messages of a client. `None`: one ended in a panic.
async fn converse(mut session: Session) -> Option<(Session, Result<()>)> {
    loop {
        let frame = match session.messages().await {
            Ok(Some(frame)) => frame,
            Ok(None) => return Some((session, Ok(()))),
            Err(e) => return Some((session, Err(e))),
        };
        let (back, done) = Box::pin(apart::message(session, frame)).await?;
        session = back;
        if let Err(e) = done.and_then(|()| session.still_stands()) {
            return Some((session, Err(e)));
        }
    }
}

impl Session {
    /// The login is complete only when home has taken the client's role, database and settings.
    async fn greet(&mut self, role: Option<&Found>, pid: i32, secret: &[u8]) -> Result<()> {
        let wanted =
            &self.epoch.snapshot.nodes.iter().find(|n| n.id == self.epoch.snapshot.home).map(|n| n.database.clone());
        let result = match wanted {
            Some(database) if *database != self.database => Err(ExecError::sql(
                sqlstate::INVALID_CATALOG_NAME,
                format!("database \"{}\" does not exist", self.database),
            )
            .hint(&format!("This herd serves the database \"{database}\"."))),
            _ if role.is_some_and(|role| !role.may_connect) => {
                let fields = ErrorFields::fatal(
                    sqlstate::INSUFFICIENT_PRIVILEGE,
                    format!("permission denied for database \"{}\"", self.database),
                );
                Err(ExecError::Sql(Box::new(fields.detail("User does not have CONNECT privilege."))))
            }
            _ => self.parameters(role.is_some_and(|role| role.has_settings)).await,
        };
        let result = result.and_then(|parameters| {
            self.own = RouterSettings::of(&self.startup)?;
            self.refresh_sharing();
            Ok(parameters)
        });
        match result {
            Ok(parameters) => {
                self.io.told(&parameters);
                login::greet(self.out(), &parameters, pid, secret);
                self.io.send().await
            }
            Err(e) => {
                let mut fields: ErrorFields = e.to_fields();
                fields.set(b'S', "FATAL");
                fields.set(b'V', "FATAL");
                fields.put(self.out(), b'E');
                self.io.send().await?;
                Err(e)
            }
        }
    }

    /// ParameterStatus for this session: home's for its role and settings; while home is down, those home had.
    async fn parameters(&mut self, has_settings: bool) -> Result<Vec<(String, String)>> {
        let home = self.epoch.snapshot.home;
        let asked = async {
            let mut work = self.work();
            let mut p = work.lane(home).await?;
            let settled = async {
                p.lane.conn.flush().await?;
                p.lane.settle_before().await?;
                let names = VALUES.map(|(name, _)| name).join(",");
                let asked = |names: &str| {
                    format!("SELECT n, pg_catalog.current_setting(n, true) FROM pg_catalog.unnest('{{{names}}}'::pg_catalog.text[]) n")
                };
                let mut question = asked(&format!("search_path,{names}"));
                if has_settings {
                    let own = RouterSettings::names().collect::<Vec<_>>().join(",");
                    question += &format!(" UNION ALL {} UNION ALL {ROLE_SETTINGS}", asked(&own));
                }
                p.lane.rows(&question).await
            }
            .await;
            let parameters = p.lane.conn.parameters().iter().map(|(n, v)| (n.clone(), v.clone())).collect::<Vec<_>>();
            work.put_back(p).await;
            Ok((parameters, settled?))
        }
        .await;
        match asked {
            Ok((parameters, settings)) => {
                for setting in settings {
                    if let [Some(name), Some(value)] = &setting[..] {
                        self.startup.set(name, value);
                        self.settings.set(name, value);
                    }
                }
                self.refresh_context();
                Ok(parameters)
            }
            Err(ExecError::Pool(e)) if e.is_node_trouble() => {
                let parameters = self.router.parameters.load().as_ref().clone();
                self.without_home(&parameters);
                Ok(parameters)
            }
            Err(e) => Err(e),
        }
    }

    /// What home told of itself while it was there; what it did not tell, as PostgreSQL has it.
    fn without_home(&mut self, told: &[(String, String)]) {
        for (name, default) in VALUES {
            if self.startup.get(name).is_none() {
                let value = told.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map_or(default, |(_, value)| value);
                self.startup.set(name, value);
                self.settings.set(name, value);
            }
        }
        self.refresh_context();
    }

    /// Works on messages, up to one that is to be worked on apart. `None`: the client has ended its session.
    async fn messages(&mut self) -> Result<Option<Frame>> {
        loop {
            let frame = match self.io.buffered()? {
                Some(frame) => frame,
                None => {
                    // Nothing more is here: what is answered so far can go.
                    self.io.send().await?;
                    match self.wait().await? {
                        Some(frame) => {
                            self.io.patience = self.router.quiet.patience(self.id);
                            frame
                        }
                        None => return self.io.ended().map_or(Ok(None), |said| Err(ExecError::Ended(said))),
                    }
                }
            };
            if frame.tag() == b'X' {
                return Ok(None);
            }
            if self.turn == Turn::Skipping && frame.tag() != b'S' {
                continue;
            }
            if self.is_large(&frame) {
                return Ok(Some(frame));
            }
            self.message(&frame).await?;
            self.still_stands()?;
        }
    }

    /// The next message. Meanwhile a session that keeps a connection hears what comes there: notifications, and its end.
    async fn wait(&mut self) -> Result<Option<Frame>> {
        loop {
            let lane = match (self.turn, self.pin.here()) {
                (Turn::Ready, Some(lane)) => lane,
                _ => return self.io.frame().await,
            };
            tokio::select! {
                frame = self.io.frame() => return frame,
                filled = lane.conn.fill() => {
                    let read = filled.and_then(|()| lane.read_unasked());
                    match read {
                        Ok(said) => self.io.pass_on(said),
                        Err(_) => {
                            self.pin = exec::Pin::lost(&lane.conn);
                            return self.still_stands().map(|()| None);
                        }
                    }
                    self.pass_notifications();
                    self.io.send().await?;
                }
            }
        }
    }

    pub(crate) async fn message(&mut self, frame: &Frame) -> Result<()> {
        match frame.tag() {
            b'Q' => {
                self.io.begin();
                let sql = match wire::frontend::query(frame.body()) {
                    Ok(sql) => sql,
                    Err(e) => {
                        let e = match std::str::from_utf8(frame.body()) {
                            Err(broken) => crate::values::encoding_error(&frame.body()[broken.valid_up_to()..]),
                            Ok(_) => ExecError::sql(sqlstate::PROTOCOL_VIOLATION, e.to_string()),
                        };
                        Box::pin(self.failed(e)).await?;
                        self.ready();
                        return Ok(());
                    }
                };
                self.shown.begin(sql);
                self.query(sql).await
            }
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                if matches!(frame.tag(), b'P' | b'E') {
                    self.io.begin();
                }
                self.turn = Turn::Open;
                if let Err(e) = self.extended(frame).await {
                    Box::pin(self.failed(e)).await?;
                    self.turn = Turn::Skipping;
                }
                Ok(())
            }
            b'H' => self.io.send().await,
            b'S' => {
                self.turn = Turn::Open;
                if !frame.body().is_empty() {
                    self.failed(ExecError::sql(sqlstate::PROTOCOL_VIOLATION, "invalid message format")).await?;
                }
                self.sync().await
            }
            // COPY data after a COPY has failed is passed over.
            b'd' | b'c' | b'f' => Ok(()),
            b'F' => {
                self.failed(
                    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, "the function call protocol is not supported")
                        .hint("Use SELECT function(…)."),
                )
                .await?;
                self.ready();
                Ok(())
            }
            other => {
                let e = wire::WireError::UnknownType(other);
                Err(ExecError::Client(e.to_string()))
            }
        }
    }

    /// The client is gone or broke the protocol: what is open is rolled back, and it is told if it still listens.
    async fn end(&mut self, result: &Result<()>) {
        if let Err(ExecError::Ended(fields)) = result {
            fields.put(self.out(), b'E');
            let _ = self.io.send().await;
        }
        if let Err(ExecError::Client(message)) = result
            && !message.starts_with("connection lost")
        {
            if message.starts_with("unexpected message type") {
                ErrorFields::error(sqlstate::PROTOCOL_VIOLATION, message.clone()).put(self.out(), b'E');
                ErrorFields::fatal(
                    sqlstate::PROTOCOL_VIOLATION,
                    "terminating connection because protocol synchronization was lost",
                )
                .put(self.out(), b'E');
                let _ = self.io.send().await;
                if self.transaction.is_active() {
                    self.rollback().await;
                }
                self.unpin();
                self.io.close().await;
                return;
            }
            ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, message.clone()).put(self.out(), b'E');
            let _ = self.io.send().await;
        }
        if self.transaction.is_active() {
            self.rollback().await;
        }
        self.unpin();
        self.forget_sequences();
        self.io.close().await;
    }
}
