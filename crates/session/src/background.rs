//! Calls in the background: this router takes them (exec `admin/background.rs`), and makes each as its own client, in a session like any other's: what a
//! call is, what it may do and how it is cancelled is what it would be from outside. It does not know what jobs are about.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use catalog::quote_ident;
use exec::{Automatic, ExecError, Outcome, Task};
use pool::Liveness;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wire::frame::{self, Reader};
use wire::{ErrorFields, put, sqlstate, startup};

use crate::cancel::CANCEL_EVERY;
use crate::client_stream::ClientStream;
use crate::login::LoggedIn;
use crate::router::Router;
use crate::serve::serve_inside;

/// How often it is looked for jobs that other routers have been asked for, or have left.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often settings are read that say what is done automatically, and how long a look may take.
const AUTOMATIC_EVERY: Duration = Duration::from_secs(5);
const AUTOMATIC_MAX: Duration = Duration::from_secs(20);
/// So many does one router work on at once.
const AT_ONCE: usize = 2;
/// Of what such a session says; notices and an error, or one value.
const MESSAGE_MAX: usize = 1 << 20;

/// Nothing that is set for a role ends a job half-way.
const SETTINGS: [(&str, &str); 6] = [
    ("application_name", "herd job"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
];

/// Works on jobs for as long as the router lives.
pub async fn work_on_jobs(router: Arc<Router>) {
    tokio::spawn(look_for_work(router.clone()));
    let mut at_work = JoinSet::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = router.herd.entered.notified() => {}
            Some(_) = at_work.join_next() => {}
        }
        while at_work.len() < AT_ONCE {
            match Task::next(&router.herd).await {
                Ok(Some(task)) => {
                    at_work.spawn(work_on(router.clone(), task));
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "jobs will be looked for again");
                    break;
                }
            }
        }
    }
}

/// What is to be moved and split without anybody's asking.
async fn look_for_work(router: Arc<Router>) {
    let mut automatic = Automatic::default();
    loop {
        tokio::time::sleep(AUTOMATIC_EVERY).await;
        match tokio::time::timeout(AUTOMATIC_MAX, automatic.look(&router.herd)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "it will be looked again whether anything is to be moved or split")
            }
            Err(_) => tracing::debug!("a node takes long to tell what is to be moved or split"),
        }
    }
}

async fn work_on(router: Arc<Router>, mut task: Task) {
    if task.cancelled {
        let outcome = undone(&router, &mut task).await;
        return end(task, outcome).await;
    }
    let (id, call) = (task.id, task.call.clone());
    tracing::info!(job = id, call = %task.call, "works on a job");
    match task.is_clear(&router.herd).await {
        Ok(true) => {}
        // What a router has left of it is not taken away yet.
        Ok(false) => return end(task, Outcome::Later).await,
        Err(error) => {
            tracing::debug!(job = id, %error, "what was left of a job can't be looked at");
            return end(task, Outcome::Later).await;
        }
    }
    let begun = async { Ok::<_, ExecError>((Client::begin(&router, &task.settings, id).await?, task.caller().await?)) };
    let outcome = match begun.await {
        Ok((mut client, Some(caller))) => {
            let ended = tokio::select! {
                biased;
                said = client.call(Some(&caller), &call) => Ok(said),
                why = task.watch() => Err(why),
            };
            match ended {
                Ok(outcome) => outcome,
                Err(why) => match client.cancel(&router).await {
                    // It was over by then.
                    Some(done) if matches!(why, Outcome::Cancelled) => done,
                    _ => why,
                },
            }
        }
        Ok((_, None)) => {
            Outcome::Failed(ErrorFields::error(sqlstate::UNDEFINED_OBJECT, "the role that called it is gone"))
        }
        Err(error) => Outcome::Failed(error.to_fields()),
    };
    let outcome = match outcome {
        Outcome::Cancelled => undone(&router, &mut task).await,
        // By the number of what was begun in its course.
        Outcome::Failed(fields) if fields.code() == sqlstate::QUERY_CANCELED => {
            match undone(&router, &mut task).await {
                Outcome::Cancelled => Outcome::Failed(fields),
                other => other,
            }
        }
        other => other,
    };
    end(task, outcome).await;
}

/// A call was cancelled: what it may have left is taken away, now or another time. In the router's own name, whatever has become of the
/// caller: it is nothing but what the job has noted.
async fn undone(router: &Arc<Router>, task: &mut Task) -> Outcome {
    let Some(undo) = task.undo.clone() else { return Outcome::Cancelled };
    let undone = match Client::begin(router, &task.settings, task.id).await {
        Ok(mut client) => client.call(None, &undo).await,
        Err(error) => Outcome::Failed(error.to_fields()),
    };
    match undone {
        Outcome::Failed(fields) => {
            let error = fields.message();
            tracing::warn!(job = task.id, error, "what a job that was cancelled has left is not taken away yet");
            Outcome::Leaves(fields)
        }
        _ => Outcome::Cancelled,
    }
}

async fn end(task: Task, outcome: Outcome) {
    let id = task.id;
    if let Err(error) = task.end(outcome).await {
        tracing::warn!(job = id, %error, "it is not noted how a job has ended: it will be made again");
    }
}

/// The client of one session of this router.
struct Client {
    stream: TcpStream,
    read: BytesMut,
    pid: i32,
    secret: Vec<u8>,
    /// What is answered next is the call.
    calls: bool,
    /// What has come of the answer so far.
    said: Said,
}

/// What a session has said up to ReadyForQuery.
#[derive(Default)]
struct Said {
    value: Option<String>,
    notices: Vec<String>,
    error: Option<ErrorFields>,
}

impl Said {
    fn outcome(self) -> Outcome {
        match self.error {
            Some(fields) => Outcome::Failed(fields),
            None => Outcome::Done(
                self.value
                    .into_iter()
                    .filter(|value| !value.is_empty())
                    .chain(self.notices)
                    .collect::<Vec<_>>()
                    .join(": "),
            ),
        }
    }
}

impl Client {
    /// Logged in as the router's own role.
    async fn begin(router: &Arc<Router>, settings: &[(String, String)], job: i64) -> Result<Client, ExecError> {
        let herd = &router.herd;
        let login = herd.own.login();
        let role = herd.roles.find(&login.user).await?;
        let snapshot = herd.epoch.load().snapshot.clone();
        let database = snapshot.node(snapshot.home).map(|home| home.database.clone()).unwrap_or_default();
        let (near, far) = pair().await.map_err(broken)?;
        let mut parameters = SETTINGS.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        parameters.extend_from_slice(settings);
        let session = LoggedIn {
            stream: ClientStream::new(far, &Liveness::CLIENT).map_err(broken)?,
            rbuf: BytesMut::new(),
            user: login.user.clone(),
            role,
            database,
            parameters,
            secret: login.secret.clone(),
            protocol: startup::PROTOCOL_3_0,
            job: Some(job),
        };
        serve_inside(Box::new(session), router.clone());
        let mut client =
            Client { stream: near, read: BytesMut::new(), pid: 0, secret: vec![], calls: false, said: Said::default() };
        match client.answer().await.map_err(broken)?.error {
            None => Ok(client),
            Some(fields) => Err(ExecError::Sql(Box::new(fields))),
        }
    }

    /// Makes the call in somebody's name; `None`: in the router's.
    async fn call(&mut self, caller: Option<&str>, call: &str) -> Outcome {
        let role = caller.map(|caller| format!("SET ROLE {}", quote_ident(caller)));
        let mut said = Ok(Said::default());
        for (statement, is_call) in role.iter().map(|role| (&**role, false)).chain([(call, true)]) {
            let mut out = BytesMut::new();
            put::query(&mut out, statement);
            self.calls = is_call;
            said = self.ask(&out).await;
            if !matches!(said, Ok(Said { error: None, .. })) {
                break;
            }
        }
        match said {
            Ok(said) => said.outcome(),
            // The session has ended without a word: as if its router had.
            Err(error) => Outcome::Failed(broken(error).to_fields()),
        }
    }

    /// Ends what runs, and waits until it has; what has become of the call if that went on to its end.
    async fn cancel(&mut self, router: &Router) -> Option<Outcome> {
        let said = loop {
            let _ = router.cancels.cancel(self.pid, &self.secret).await;
            if let Ok(answered) = tokio::time::timeout(CANCEL_EVERY, self.answer()).await {
                break answered.ok()?;
            }
        };
        (self.calls && said.error.is_none()).then(|| said.outcome())
    }

    async fn ask(&mut self, out: &[u8]) -> io::Result<Said> {
        self.stream.write_all(out).await?;
        self.answer().await
    }

    /// May be given up, and asked for again.
    async fn answer(&mut self) -> io::Result<Said> {
        loop {
            let said = &mut self.said;
            while let Some(message) = frame::take(&mut self.read, MESSAGE_MAX).map_err(io::Error::other)? {
                let body = message.body();
                match message.tag() {
                    b'D' => said.value = first(body),
                    b'N' => said.notices.extend(fields(body).map(|f| f.message().to_string())),
                    b'E' => {
                        let error = fields(body);
                        let fatal = error.as_ref().is_some_and(|f| f.get(b'S') == Some("FATAL"));
                        said.error = error;
                        // Nothing comes behind it.
                        if fatal {
                            return Ok(std::mem::take(said));
                        }
                    }
                    b'K' => {
                        self.pid = body.first_chunk().map_or(0, |pid| i32::from_be_bytes(*pid));
                        self.secret = body.get(4..).unwrap_or_default().to_vec();
                    }
                    b'Z' => return Ok(std::mem::take(said)),
                    _ => {}
                }
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn fields(body: &[u8]) -> Option<ErrorFields> {
    ErrorFields::parse(body).ok()
}

/// The first value of a row.
fn first(row: &[u8]) -> Option<String> {
    let mut r = Reader::new(row);
    r.count(4).ok()?;
    let len = usize::try_from(r.i32().ok()?).ok()?;
    String::from_utf8(r.bytes(len).ok()?.to_vec()).ok()
}

fn broken(error: io::Error) -> ExecError {
    ExecError::sql(sqlstate::CONNECTION_FAILURE, format!("the session of the job has ended: {error}"))
}

/// Two ends of one connection, which nobody else can be at the other end of.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    loop {
        let (far, peer) = listener.accept().await?;
        if peer == near.local_addr()? {
            return Ok((near, far));
        }
    }
}
