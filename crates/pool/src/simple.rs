//! Statements of the router's own, over the simple protocol, with whole results as text. Not for clients' statements:
//! nothing here streams.

use catalog::{Query, Row};
use wire::{ErrorFields, WireError, backend, put};

use crate::conn::{Conn, Progress, Remembers};
use crate::error::PoolError;
use crate::settings::{Settings, roles_now};
use crate::statements::StatementKey;

/// Rows that are read before others are served.
const AT_ONCE: usize = 512;

impl Conn {
    /// Runs `sql` and returns the rows of its last result. An error is returned after ReadyForQuery, so the
    /// connection can be used on. If cancelled half-way, the connection still owes its reply.
    pub async fn simple(&mut self, sql: &str) -> Result<Vec<Row>, PoolError> {
        self.put_simple(sql)?;
        self.flush().await?;
        self.simple_answer().await
    }

    /// As [`simple`](Self::simple) of one statement with parameters as text, which are in no log of statements.
    pub async fn with_parameters(&mut self, sql: &str, parameters: &[&str]) -> Result<Vec<Row>, PoolError> {
        self.may_send(sql)?;
        let out = self.out();
        put::parse(out, "", sql, &[]);
        put::bind(out, "", "", &[], parameters.iter().map(|p| Some(p.as_bytes())), &[]);
        put::execute(out, "", 0);
        put::sync(out);
        self.sent_sync();
        self.flush().await?;
        self.simple_answer().await
    }

    /// As [`simple`](Self::simple) for each of these, which are sent without waiting for one another's answers. If the connection is lost, the
    /// answers end with that.
    pub async fn simple_all(&mut self, sqls: &[String]) -> Vec<Result<Vec<Row>, PoolError>> {
        self.ask_all(sqls, |_| false).await
    }

    /// As [`simple_all`](Self::simple_all), for questions that come again and again: their plans are kept on the node. For connections on which
    /// nobody else's code runs, and which nobody resets.
    pub async fn kept_all(&mut self, sqls: &[String]) -> Vec<Result<Vec<Row>, PoolError>> {
        self.ask_all(sqls, is_question).await
    }

    async fn ask_all(&mut self, sqls: &[String], is_kept: fn(&str) -> bool) -> Vec<Result<Vec<Row>, PoolError>> {
        let mut answers = Vec::with_capacity(sqls.len());
        let sent = async {
            sqls.iter().try_for_each(|sql| self.may_send(sql))?;
            for sql in sqls {
                match is_kept(sql) {
                    true => self.put_kept(sql),
                    false => put::query(self.out(), sql),
                }
                self.sent_sync();
            }
            // A node that is itself blocked on writing does not read.
            while self.flush_or_fill().await? == Progress::Filled {}
            Ok(())
        };
        if let Err(e) = sent.await {
            answers.push(Err(e));
            return answers;
        }
        for sql in sqls {
            let answer = self.simple_answer().await;
            if answer.is_err() && is_kept(sql) {
                self.statements.remove(&StatementKey::of(sql, &[]));
            }
            answers.push(answer);
            if self.is_broken() {
                break;
            }
        }
        answers
    }

    fn put_kept(&mut self, sql: &str) {
        let (name, _) = self.prepare(StatementKey::of(sql, &[]), sql, &[]);
        let out = self.out();
        put::bind(out, "", &name, &[], std::iter::empty(), &[]);
        put::execute(out, "", 0);
        put::sync(out);
    }

    /// Reads what is still to come of a statement that was given up half-way. That of a client must be cancelled first.
    pub async fn finish_given_up(&mut self) -> Result<(), PoolError> {
        self.flush().await?;
        while self.outstanding() > 0 {
            match self.simple_answer().await {
                Err(e) if self.is_broken() => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// START_REPLICATION, to a walsender: what comes from now on is the stream, as CopyData, to the end of the connection. After an error it can
    /// be used on.
    pub async fn start_replication(&mut self, sql: &str) -> Result<(), PoolError> {
        self.put_simple(sql)?;
        self.flush().await?;
        let mut failure = PoolError::from(WireError::Other("a walsender does not stream"));
        loop {
            let frame = self.frame().await?;
            match frame.tag() {
                b'W' => return Ok(()),
                b'E' => failure = PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)),
                b'Z' => return Err(failure),
                _ => {}
            }
        }
    }

    fn may_send(&self, sql: &str) -> Result<(), PoolError> {
        if self.outstanding() > 0 {
            return Err(WireError::Other("a statement was sent while replies are still to come").into());
        }
        if sql.contains('\0') {
            return Err(WireError::String.into());
        }
        Ok(())
    }

    fn put_simple(&mut self, sql: &str) -> Result<(), PoolError> {
        self.may_send(sql)?;
        put::query(self.out(), sql);
        self.sent_sync();
        Ok(())
    }

    async fn simple_answer(&mut self) -> Result<Vec<Row>, PoolError> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let frame = self.frame().await?;
            match frame.tag() {
                b'T' => rows.clear(),
                b'D' => {
                    rows.push(text_row(frame.body())?);
                    if rows.len().is_multiple_of(AT_ONCE) {
                        // What has come already is read without a wait.
                        tokio::task::yield_now().await;
                    }
                }
                b'E' => {
                    error = Some(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)));
                    if self.is_broken() {
                        break;
                    }
                }
                b'G' => {
                    put::copy_fail(self.out(), "COPY FROM STDIN is not possible here");
                    self.flush().await?;
                }
                b'Z' => break,
                _ => {}
            }
        }
        error.map_or(Ok(rows), Err)
    }

    /// Gives the connection these settings, if it has others, and waits until it has. Behind an error it has nobody knows which, and is broken.
    pub async fn take_on(&mut self, wanted: &Settings) -> Result<(), PoolError> {
        let Some(sql) = self.settings_to(wanted) else { return Ok(()) };
        let taken = self.simple(&sql).await;
        if taken.is_err() {
            self.mark_broken();
        }
        taken.map(drop)
    }

    /// SQL that gives the connection these settings, if it has others; from now on it is taken to have them. A role that it
    /// was given by a name is given again where the name may mean another by now.
    pub fn settings_to(&mut self, wanted: &Settings) -> Option<String> {
        let now = roles_now();
        let stale = self.roles_as_of != now && self.settings.have_role();
        self.roles_as_of = now;
        let login = &self.at_login.own;
        let sql = match stale {
            true => Some(self.settings.all_sql_to(wanted, login, true)),
            false => self.settings.sql_to(wanted, login),
        }?;
        self.settings = wanted.clone();
        Some(sql).filter(|sql| !sql.is_empty())
    }

    /// SQL that gives these what a session began with, behind a RESET, which has given them what the connection began with.
    pub fn back_to(&self, began: &Settings, names: &[&str], local: bool) -> Option<String> {
        began.sql_back_to(&self.at_login.own, names, local)
    }

    /// Makes the session as good as new: no settings but those of its login, no statements, temporary tables, locks, cursors.
    /// Values of sequences that a session may still ask for stay: others' statements forget them before they could see them.
    pub async fn reset(&mut self) -> Result<(), PoolError> {
        self.forget_notifications(true);
        if self.sequences.are_wanted() {
            self.simple(ALL_BUT_SEQUENCES).await?;
        } else {
            self.simple("DISCARD ALL").await?;
            self.sequences = Remembers::Nobodys;
        }
        self.discarded();
        // It may have been temporary tables.
        self.temporary |= self.tainted;
        self.tainted = false;
        self.forget_notifications(false);
        Ok(())
    }
}

/// The parts of DISCARD ALL (`DiscardAll` in discard.c), but one.
const ALL_BUT_SEQUENCES: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *; \
     SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP";

/// What a plan can be kept of; the rest is said as it is.
fn is_question(sql: &str) -> bool {
    sql.starts_with("SELECT") || sql.starts_with("WITH")
}

impl Query for Conn {
    type Error = PoolError;

    async fn query(&mut self, sql: &str) -> Result<Vec<Row>, PoolError> {
        self.simple(sql).await
    }

    async fn query_all(&mut self, sqls: &[String]) -> Vec<Result<Vec<Row>, PoolError>> {
        self.simple_all(sqls).await
    }
}

fn text_row(body: &[u8]) -> Result<Row, PoolError> {
    let text = |value: &[u8]| std::str::from_utf8(value).map(str::to_string).map_err(|_| WireError::String);
    let values = backend::parse_data_row(body)?;
    Ok(values.into_iter().map(|v| v.map(text).transpose()).collect::<Result<_, _>>()?)
}
