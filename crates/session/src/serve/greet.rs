//! The beginning of a session: what it begins with, asked of home once for many, and what its client is told. Who the client is was
//! found out before.

use std::sync::Arc;

use exec::{ExecError, Found};
use pool::{AtLogin, Settings};
use wire::ErrorFields;
use wire::sqlstate;

use crate::activity::Shown;
use crate::cancel::Registration;
use crate::client_io::{ClientIo, Room};
use crate::login::{self, LoggedIn};
use crate::reports::Reports;
use crate::router::Router;
use crate::router_settings::RouterSettings;
use crate::session::{Result, Session, Turn};
use crate::transaction::OwnCatalog;

/// What the texts of values mean, which go from node to node, and how transactions read, with PostgreSQL's defaults. Like the search path, by which
/// names are planned, every connection of the session has what home has for it at login: whatever the nodes'
/// configurations say, and whatever becomes of the role's settings.
const VALUES: [(&str, &str); 9] = [
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "GMT"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    ("array_nulls", "on"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
    ("default_transaction_isolation", "read committed"),
];

/// Of a session that gives itself no name: not the router's own.
const APPLICATION: &str = "application_name";

impl Session {
    /// Of a client that has logged in, before home has said what it begins with.
    pub(super) fn new(client: LoggedIn, router: Arc<Router>, registration: &Registration, shown: Shown) -> Self {
        let mut startup = Settings::default();
        // Nodes are spoken to in UTF8.
        let (encoding, others) =
            client.parameters.iter().partition::<Vec<_>, _>(|(name, _)| name == crate::encoding::NAME);
        for (name, value) in others {
            startup.set(name, value);
        }
        shown.rename(startup.get("application_name").unwrap_or(""), startup.fingerprint());
        let room = Room::new(router.apart.messages.clone(), client.role.as_ref().map_or(0, |r| r.word.oid));
        let (most, handle) = (router.limits.message_bytes_max, registration.handle.clone());
        let io = ClientIo::new(client.stream, client.rbuf, most, room, handle);
        let epoch = router.herd.epoch.load_full();
        let login = match &client.role {
            Some(role) => router.herd.pools.admit(&role.word, client.secret),
            None => router.herd.pools.admit_unseen(&client.user, client.secret),
        };
        let mut session = Session {
            io,
            login,
            settings: startup.clone(),
            startup,
            named_roles: Default::default(),
            pending: vec![],
            own: RouterSettings::default(),
            idle: Default::default(),
            idle_at_start: Default::default(),
            transaction: Default::default(),
            epoch,
            own_catalog: OwnCatalog::None,
            after_commit: vec![],
            pin: Default::default(),
            pins: 0,
            shown,
            pg_temp: Default::default(),
            temporary: Arc::from([]),
            statements: Default::default(),
            allowance: exec::Allowance::of(&router.budget),
            memory: router.herd.memory.another(),
            large_statements: false,
            large_values: false,
            portals: Default::default(),
            prepared: Default::default(),
            reading: None,
            cursors: Default::default(),
            leftover: Default::default(),
            search_path: Default::default(),
            path_word: Default::default(),
            context: 0,
            taint: false,
            code: None,
            id: registration.pid as u64,
            sharing: Default::default(),
            sequences: Default::default(),
            reads: None,
            moves: Default::default(),
            bulk: exec::Bulk { session: registration.pid, ..Default::default() },
            batch: false,
            encoding_at_start: encoding.last().map(|(_, value)| value.as_str().into()),
            numbering: 0,
            nesting: 0,
            turn: Turn::Ready,
            router,
        };
        session.refresh_sharing();
        session.refresh_context();
        session.transaction.home = Some(session.epoch.snapshot.home);
        session
    }

    /// The login is complete only when home has taken the client's role, database and settings.
    pub(super) async fn greet(&mut self, role: Option<&Found>, pid: i32, secret: &[u8]) -> Result<()> {
        let wanted =
            &self.epoch.snapshot.nodes.iter().find(|n| n.id == self.epoch.snapshot.home).map(|n| n.database.clone());
        let result = match wanted {
            Some(database) if *database != self.shown.database => Err(ExecError::sql(
                sqlstate::INVALID_CATALOG_NAME,
                format!("database \"{}\" does not exist", self.shown.database),
            )
            .hint(&format!("This herd serves the database \"{database}\"."))),
            _ if role.is_some_and(|role| !role.may_connect) => {
                let fields = ErrorFields::fatal(
                    sqlstate::INSUFFICIENT_PRIVILEGE,
                    format!("permission denied for database \"{}\"", self.shown.database),
                );
                Err(ExecError::Sql(Box::new(fields.detail("User does not have CONNECT privilege."))))
            }
            _ => self.parameters().await,
        };
        let result = match result {
            Ok(parameters) => self.settle_encoding().await.map(|()| parameters),
            error => error,
        };
        let result = result.and_then(|mut parameters| {
            self.own = self.own_at_start()?;
            let spoken = self.own.get(crate::encoding::NAME);
            parameters.iter_mut().filter(|(n, _)| n == crate::encoding::NAME).for_each(|p| p.1 = spoken.to_string());
            self.refresh_sharing();
            Ok(parameters)
        });
        match result {
            Ok(parameters) => {
                self.startup.share();
                self.settings.share();
                self.io.reports = Reports::new(&parameters);
                login::greet(self.out(), &parameters, pid, secret);
                self.io.send().await
            }
            Err(e) => {
                let mut fields: ErrorFields = e.to_fields();
                fields.set(b'S', "FATAL");
                fields.set(b'V', "FATAL");
                // It has only begun.
                fields.fields.retain(|(code, text)| *code != b'H' || text != txn::CONNECT_AGAIN);
                fields.put(self.out(), b'E');
                self.io.send().await?;
                Err(e)
            }
        }
    }

    /// How PostgreSQL spells what the client has asked for.
    async fn settle_encoding(&mut self) -> Result<()> {
        if let Some(asked) = self.encoding_at_start.take() {
            let spelled = self.router.encodings.spelled(&self.router.herd, &asked).await?;
            self.encoding_at_start = Some(spelled.into());
        }
        Ok(())
    }

    /// ParameterStatus for this session: home's for its role and settings; while home is down, those home had.
    async fn parameters(&mut self) -> Result<Vec<(String, String)>> {
        let asked = Box::pin(self.ask_parameters()).await;
        let parameters = match asked {
            Ok(parameters) => parameters,
            // Nobody can say whether it may have the role it asks for.
            Err(ExecError::Pool(e)) if e.is_node_trouble() && !self.startup.have_role() => {
                let parameters = self.router.parameters.load().as_ref().clone();
                self.without_home(&parameters);
                parameters
            }
            Err(e) => return Err(e),
        };
        self.refresh_context();
        Ok(parameters)
    }

    async fn ask_parameters(&mut self) -> Result<Vec<(String, String)>> {
        let home = self.epoch.snapshot.home;
        let mut lane = loop {
            let mut lane = self.work().fresh(home).await?;
            if lane.conn.is_of_login_now() {
                break lane;
            }
            lane.conn.mark_broken();
            self.work().put_back(txn::Participant::new(lane)).await;
        };
        let asked: Vec<String> = self.startup.iter().map(|(name, _)| name.to_string()).collect();
        let had = lane.conn.settings.clone();
        let at_login = lane.conn.at_login.clone();
        self.begin_as(&at_login);
        self.keep_idle(at_login.defaults.as_deref());
        lane.want(&self.settings);
        // What the client asks for may be no longer his, though an earlier session of his has left it there.
        for name in asked.iter().filter(|name| had.get(name).is_some() && had.get(name) == self.settings.get(name)) {
            let value = catalog::quote_literal(self.settings.get(name).unwrap_or_default());
            lane.put_before(&format!("SELECT pg_catalog.set_config({}, {value}, false)", catalog::quote_literal(name)));
        }
        let names = VALUES.map(|(name, _)| name).join(",");
        let question = format!(
            "SELECT n, pg_catalog.current_setting(n, true) FROM pg_catalog.unnest('{{search_path,{names}}}'::pg_catalog.text[]) n"
        );
        let settings = lane.rows(&question).await;
        let parameters = lane.conn.parameters().iter().map(|(n, v)| (n.clone(), v.clone())).collect::<Vec<_>>();
        self.work().put_back(txn::Participant::new(lane)).await;
        for setting in settings? {
            if let [Some(name), Some(value)] = &setting[..] {
                self.startup.set(name, value);
                self.settings.set(name, value);
            }
        }
        Ok(parameters)
    }

    /// What a login to home makes of the role's and the database's settings is the session's, whatever becomes of them and of the role.
    /// What only a superuser may set is made by each connection for itself.
    fn begin_as(&mut self, at_login: &AtLogin) {
        if self.startup.get("role").is_none() {
            self.named_roles.begin_as(at_login.role);
        }
        for (name, value) in at_login.own.iter().chain(at_login.hidden.iter()) {
            self.begin_with(name, value);
        }
        self.begin_with(APPLICATION, "");
        self.startup.set_defaults(at_login.defaults.clone());
        self.settings.set_defaults(at_login.defaults.clone());
    }

    /// A setting that the session begins with, and RESET leads to, unless its client has asked for another.
    fn begin_with(&mut self, name: &str, value: &str) {
        if self.startup.get(name).is_none() {
            self.startup.set(name, value);
            self.settings.set(name, value);
        }
    }

    /// What home told of itself while it was there; what it did not tell, as PostgreSQL has it.
    fn without_home(&mut self, told: &[(String, String)]) {
        self.begin_with(APPLICATION, "");
        self.keep_idle(None);
        for (name, default) in VALUES {
            let value = told.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map_or(default, |(_, value)| value);
            self.begin_with(name, value);
        }
    }
}
