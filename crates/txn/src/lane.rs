//! A connection in use: requests put in front of a statement (settings, BEGIN) travel with it in one write, and
//! their replies are skipped. It does not know what the statement is.

use std::sync::Arc;

use catalog::NodeId;
use pool::{PoolError, PooledConn, Settings, StatementKey};
use wire::{ErrorFields, Frame, backend, put, sqlstate};

use crate::said::{Said, WAITING_MAX};

/// A connection to a node while a statement or transaction has it, and what is to be sent in front.
pub struct Lane {
    pub node: NodeId,
    pub conn: PooledConn,
    /// ReadyForQuery that belong to requests put in front: everything up to them is skipped.
    skip: u32,
    /// Settings are among them.
    awaits_settings: bool,
    /// Notices of statements run by [`run`](Self::run), whole messages, for whoever wants to pass them on.
    pub notices: bytes::BytesMut,
    /// Notices of the client's own statement: the client gets them, whichever node this is.
    pub said: Said,
    /// What is read behind the next statement, in its transaction: fails if its names mean something else by then.
    pub look: Option<Arc<Look>>,
    /// The types of the columns that the next answer is taken to have; 0 is any.
    pub columns: Option<Arc<Vec<u32>>>,
}

/// SQL that is understood and not run: it fails if its names mean nothing any more.
#[derive(Debug)]
pub struct Look {
    pub sql: String,
    /// What a connection keeps it by.
    pub key: StatementKey,
}

/// Why a session may no longer set what it has set.
pub const CONNECT_AGAIN: &str =
    "What the session's role may set, or has set for it, was changed since the session began: connect again.";

impl Look {
    /// One that any connection may keep prepared.
    pub fn new(sql: String) -> Self {
        Look { key: StatementKey::of(&sql, &[]), sql }
    }
}

impl Lane {
    /// A connection to a node as it is: nothing is set up on it.
    pub fn new(node: NodeId, conn: PooledConn) -> Self {
        let (notices, said) = Default::default();
        Lane { node, conn, skip: 0, awaits_settings: false, notices, said, look: None, columns: None }
    }

    /// A connection of the client's role, set up as its session is: what others left set there is not this session's.
    pub fn lent(node: NodeId, conn: PooledConn, settings: &Settings) -> Self {
        let mut lane = Lane::new(node, conn);
        lane.want(settings);
        lane
    }

    /// Rows of SQL by itself, with what a transaction elsewhere has set.
    pub async fn rows_with(&mut self, set: &[String], sql: &str) -> Result<Vec<catalog::Row>, PoolError> {
        if set.is_empty() {
            return self.rows(sql).await;
        }
        self.put_begin("BEGIN", set.iter().map(String::as_str));
        let rows = self.rows(sql).await;
        if !self.conn.is_broken() {
            self.run("ROLLBACK").await?;
        }
        rows
    }

    /// Begins a transaction beside another one, with what that has set. What it sets for a session is not this session's.
    pub fn put_begin<'s>(&mut self, begin: &str, set: impl IntoIterator<Item = &'s str>) {
        self.put_before(begin);
        for sql in set {
            self.conn.tainted = true;
            self.put_before(sql);
        }
    }

    /// Puts SQL in front of what comes next. Its replies are not seen; its error, if any, comes from [`next`](Self::next).
    pub fn put_before(&mut self, sql: &str) {
        put::query(self.conn.out(), sql);
        self.conn.sent_sync();
        self.skip += 1;
    }

    /// Puts a look at tables in front of what comes next, by their names: the transaction keeps their locks from then on.
    pub fn put_looked(&mut self, tables: &[String]) {
        if tables.is_empty() {
            return;
        }
        // Understood and not run: that is what takes the locks.
        let each: Vec<_> = tables.iter().map(|table| format!("SELECT FROM ONLY {table}")).collect();
        put::parse(self.conn.out(), "", &each.join(" UNION ALL "), &[]);
        put::sync(self.conn.out());
        self.conn.sent_sync();
        self.skip += 1;
    }

    /// Gives the connection the session's settings, if it has others.
    pub fn want(&mut self, settings: &Settings) {
        if let Some(sql) = self.conn.settings_to(settings) {
            self.put_before(&sql);
            self.awaits_settings = true;
        }
    }

    /// Sends the settings that were put in front, for [`settle`](Self::settle).
    pub async fn send_settings(&mut self) -> Result<(), PoolError> {
        if self.awaits_settings {
            self.conn.flush().await?;
        }
        Ok(())
    }

    /// Waits until it has the settings that were put in front: what comes next is not sent where it can't have them.
    pub async fn settle(&mut self) -> Result<(), PoolError> {
        if self.awaits_settings {
            self.conn.flush().await?;
            self.settle_before().await?;
        }
        Ok(())
    }

    /// The next message that belongs to the statement itself.
    pub async fn next(&mut self) -> Result<Frame, PoolError> {
        self.settle_before().await?;
        self.conn.frame().await
    }

    /// Reads the replies of what was put in front; afterwards the read buffer starts with the statement's own.
    pub async fn settle_before(&mut self) -> Result<(), PoolError> {
        self.awaits_settings = false;
        let mut error = None;
        while self.skip > 0 {
            let frame = self.conn.frame().await?;
            match frame.tag() {
                b'Z' => self.skip -= 1,
                b'E' if error.is_none() => error = Some(ErrorFields::parse(frame.body())?),
                _ => {}
            }
        }
        match error {
            Some(mut fields) => {
                if fields.code() == sqlstate::INSUFFICIENT_PRIVILEGE && fields.get(b'H').is_none() {
                    fields = fields.hint(CONNECT_AGAIN);
                }
                // The connection is not in the state it should be in: what followed is not to be trusted.
                self.conn.mark_broken();
                Err(PoolError::Server(Box::new(fields)))
            }
            None => Ok(()),
        }
    }

    /// Whether the read buffer can be looked at directly.
    pub fn is_settled(&self) -> bool {
        self.skip == 0
    }

    /// Whether another statement may use the connection: everything asked on it is answered and read, but for what was put
    /// in front. If not, it is never used again, whoever holds it.
    pub fn break_unless_at_rest(&mut self) -> bool {
        self.conn.at_rest(self.skip)
    }

    /// What the node has said unasked while nothing ran: notices and parameters, whole messages. Notifications are apart.
    pub fn read_unasked(&mut self) -> Result<bytes::BytesMut, PoolError> {
        let mut said = bytes::BytesMut::new();
        while let Some(frame) = self.conn.buffered_frame()? {
            match frame.tag() {
                b'N' | b'S' => said.extend_from_slice(&frame.raw),
                _ => {
                    self.conn.mark_broken();
                    return Err(self.conn.gone());
                }
            }
        }
        Ok(said)
    }

    /// Sends SQL by the simple protocol, without waiting.
    pub fn put_query(&mut self, sql: &str) {
        put::query(self.conn.out(), sql);
        self.conn.sent_sync();
    }

    /// Reads replies to the next ReadyForQuery, throwing rows away; the last command tag is returned.
    pub async fn finish(&mut self) -> Result<String, PoolError> {
        self.replies(&mut None).await
    }

    async fn replies(&mut self, value: &mut Option<String>) -> Result<String, PoolError> {
        let mut tag = String::new();
        let mut error = None;
        loop {
            let frame = self.next().await?;
            match frame.tag() {
                b'C' => tag = backend::parse_command_complete(frame.body())?.to_string(),
                b'D' => {
                    let row = backend::parse_data_row(frame.body())?;
                    *value = row.first().copied().flatten().map(|v| String::from_utf8_lossy(v).into_owned());
                }
                b'E' => {
                    let fields = ErrorFields::parse(frame.body())?;
                    if fields.is_fatal() {
                        return Err(PoolError::Server(Box::new(fields)));
                    }
                    error.get_or_insert(fields);
                }
                b'G' => {
                    put::copy_fail(self.conn.out(), "unexpected COPY");
                    self.conn.flush().await?;
                }
                b'Z' => break,
                // A change of the catalog can run code for each row, which may say more than anybody has memory for.
                b'N' if self.notices.len() > WAITING_MAX => {}
                b'N' | b'S' => self.notices.extend_from_slice(&frame.raw),
                _ => {}
            }
        }
        match error {
            Some(fields) => Err(PoolError::Server(Box::new(fields))),
            None => Ok(tag),
        }
    }

    /// Sends a statement with parameters as text, without waiting. They are in no log of statements and not in
    /// pg_stat_activity.
    pub fn put_statement(&mut self, sql: &str, parameters: &[&str]) {
        let out = self.conn.out();
        put::parse(out, "", sql, &[]);
        put::bind(out, "", "", &[], parameters.iter().map(|p| Some(p.as_bytes())), &[]);
        put::execute(out, "", 0);
        put::sync(out);
        self.conn.sent_sync();
    }

    /// Reads replies to the next ReadyForQuery as [`finish`](Self::finish) does; the first value of the last row is
    /// returned.
    pub async fn value(&mut self) -> Result<Option<String>, PoolError> {
        let mut value = None;
        self.replies(&mut value).await.map(|_| value)
    }

    /// Runs SQL by the simple protocol and returns its last command tag.
    pub async fn run(&mut self, sql: &str) -> Result<String, PoolError> {
        self.put_query(sql);
        self.conn.flush().await?;
        self.finish().await
    }

    /// Rows of SQL as text.
    pub async fn rows(&mut self, sql: &str) -> Result<Vec<catalog::Row>, PoolError> {
        self.conn.flush().await?;
        self.settle_before().await?;
        self.conn.simple(sql).await
    }
}

impl catalog::Query for Lane {
    type Error = PoolError;
    async fn query(&mut self, sql: &str) -> Result<Vec<catalog::Row>, PoolError> {
        self.rows(sql).await
    }

    async fn query_all(&mut self, sqls: &[String]) -> Vec<Result<Vec<catalog::Row>, PoolError>> {
        let settled = async {
            self.conn.flush().await?;
            self.settle_before().await
        };
        match settled.await {
            Ok(()) => self.conn.simple_all(sqls).await,
            Err(e) => vec![Err(e)],
        }
    }
}
