//! What home says of roles now: who a name is, whether it may log in, and by which verifier. Asked at each login, and behind
//! each login to a node; nothing of it is kept here, so a change is seen whoever made it and wherever.
//!
//! It does not know how clients prove who they are, nor who is let in.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pool::{Conn, Judge, NodeTarget, OwnConns, PoolError, RoleWord};
use wire::scram::SCRAM_ITERATIONS;
use wire::{ErrorFields, sqlstate};

/// Bytes of a verifier that is read. PostgreSQL 18 keeps none beyond 512 (MAX_ENCRYPTED_PASSWORD_LEN); before, a salt could have any length.
const VERIFIER_MAX: usize = 512;

/// Rounds of hashing for a password that is set in this session; older servers have no such setting.
pub const ITERATIONS: &str = "coalesce(pg_catalog.current_setting('scram_iterations', true), '4096')";

/// Who users are, as home has said; known names are followed.
pub struct Roles {
    own: OwnConns,
    home: NodeTarget,
    /// Where clients prove nothing no verifier is read: that takes a superuser.
    verifiers: bool,
    /// Rounds of hashing for a password that is set there, as it last said.
    iterations: AtomicU32,
}

/// A role, as home has it.
#[derive(Clone, Debug)]
pub struct Found {
    pub word: RoleWord,
    pub can_login: bool,
    /// Sessions it may have; below 0 there is no limit, as for superusers (InitializeSessionUserId in PostgreSQL's miscinit.c).
    pub connection_limit: i32,
    /// It may connect to the herd's database.
    pub may_connect: bool,
    /// `rolpassword`; `None`: it has none, or it has expired, or nobody asked for it.
    pub verifier: Option<String>,
}

/// Gives the router's own role home's verifier on a server that becomes a node: the router logs in to all nodes by home's
/// password, and keys of a client open what has the same verifier. Both connections are the role's, by passwords the
/// operator has told. True if it had another one. A role that may not read verifiers, or has none, changes nothing.
pub async fn bring_verifier(home: &mut Conn, node: &mut Conn) -> Result<bool, PoolError> {
    const MAY: &str =
        "SELECT session_user, pg_catalog.has_table_privilege(session_user, 'pg_catalog.pg_authid', 'SELECT')";
    const VERIFIER: &str = "SELECT rolpassword FROM pg_catalog.pg_authid WHERE rolname = session_user";
    let mut found = Vec::new();
    for conn in [&mut *home, &mut *node] {
        let who = conn.simple(MAY).await?.into_iter().next().unwrap_or_default();
        let [Some(role), Some(may)] = &who[..] else { return Ok(false) };
        if may != "t" {
            return Ok(false);
        }
        let verifier = conn.simple(VERIFIER).await?.into_iter().next().and_then(|row| row.into_iter().next()?);
        let Some(verifier) = verifier else { return Ok(false) };
        found.push((role.clone(), verifier));
    }
    let [(role, verifier), (on_node, old)] = &found[..] else { return Ok(false) };
    if role != on_node || verifier == old || wire::scram::Verifier::parse(verifier).is_err() {
        return Ok(false);
    }
    let (role, verifier) = (catalog::quote_ident(role), catalog::quote_literal(verifier));
    node.simple(&format!("ALTER ROLE {role} PASSWORD {verifier}")).await?;
    Ok(true)
}

/// Whether a server may become a node, and be told what only nodes know: it has proved who it is, as home has, or the operator
/// says in so many words that it need not.
pub fn is_trusted(home: &Conn, node: &Conn) -> Result<(), PoolError> {
    let required = node.target().require_auth;
    if node.is_proved() || !home.is_proved() || required.told && (required.none || required.md5 || required.password) {
        return Ok(());
    }
    let node = node.target().to_string();
    let error = ErrorFields::error(
        sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
        format!("server {node} let the router in without proving who it is, as home does"),
    );
    let hint = "Let it ask the router for scram-sha-256 in its pg_hba.conf, or check its certificate (sslmode=verify-full). \
        Where nobody can stand in for it, say require_auth=scram-sha-256,none of it in herd.toml (of home for citus_add_node).";
    Err(PoolError::Auth { node, error: Box::new(error.hint(hint)) })
}

impl Roles {
    /// `own` connects to `home`, as a superuser where `verifiers` are to be read.
    pub fn new(own: OwnConns, home: NodeTarget, verifiers: bool) -> Self {
        Roles { own, home, verifiers, iterations: AtomicU32::new(SCRAM_ITERATIONS) }
    }

    /// Home's `scram_iterations`, when it was last asked about a login: who is made up must look like who is not.
    pub fn iterations(&self) -> u32 {
        self.iterations.load(Ordering::Relaxed)
    }

    /// Home's word about a role; `None`: there is none of this name. Whoever knocks has it asked, before he has proved anything: on
    /// connections that nobody else waits for.
    pub async fn find(&self, name: &str) -> Result<Option<Found>, PoolError> {
        let question = self.question(&format!("r.rolname = {}", catalog::quote_literal(name)));
        let question = format!("SELECT i.n, w.* FROM (SELECT {ITERATIONS}) i (n) LEFT JOIN ({question}) w ON true");
        let rows = self.own.rows_for_logins(&self.home, &question).await?;
        let Some((Some(iterations), found)) = rows.first().and_then(|row| row.split_first()) else {
            return Err(unread().into());
        };
        self.iterations.store(iterations.parse().unwrap_or(SCRAM_ITERATIONS), Ordering::Relaxed);
        match found.first() {
            Some(Some(_)) => Ok(Some(Found::read(found).ok_or_else(unread)?)),
            _ => Ok(None),
        }
    }

    async fn ask(&self, which: &str) -> Result<Vec<Found>, PoolError> {
        Ok(read(&self.own.rows(&self.home, &self.question(which)).await?)?)
    }

    /// Of each row what tells that it has changed, and nothing that its role can make long: neither is read what is set, which may
    /// be hundreds of megabytes, nor a verifier with a salt of that length. A row's place changes with every change of it,
    /// even to what it was before; pg_roles has none.
    fn question(&self, which: &str) -> String {
        let (table, row, verifier) = match self.verifiers {
            true => (
                "pg_catalog.pg_authid",
                "pg_catalog.concat_ws(' ', r.xmin, r.ctid)",
                format!(
                    "CASE WHEN r.rolvaliduntil <= pg_catalog.now() THEN NULL \
                          WHEN pg_catalog.octet_length(r.rolpassword) > {VERIFIER_MAX} THEN '' ELSE r.rolpassword END"
                ),
            ),
            false => (
                "pg_catalog.pg_roles",
                "pg_catalog.concat_ws(' ', r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolcanlogin, r.rolreplication, \
                   r.rolbypassrls, r.rolconnlimit, r.rolvaliduntil)",
                "NULL".to_string(),
            ),
        };
        format!(
            "SELECT r.oid, r.rolname, pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()), r.rolcanlogin, \
             CASE WHEN r.rolsuper THEN -1 ELSE r.rolconnlimit END, \
             pg_catalog.has_database_privilege(r.oid, d.oid, 'CONNECT'), {verifier}, s.settings IS NOT NULL, r.rolname, {row}, s.settings \
             FROM {table} r, pg_catalog.pg_database d, LATERAL (SELECT \
               pg_catalog.string_agg(pg_catalog.concat_ws(' ', c.setdatabase, c.setrole, c.xmin, c.ctid), ',' ORDER BY c.setdatabase, c.setrole) AS settings \
               FROM pg_catalog.pg_db_role_setting c WHERE c.setdatabase IN (0, d.oid) AND c.setrole IN (0, r.oid)) s \
             WHERE d.datname = pg_catalog.current_database() AND {which}"
        )
    }
}

impl Found {
    fn read(row: &[Option<String>]) -> Option<Found> {
        let cell = |n: usize| row.get(n)?.as_deref();
        let is = |n: usize| cell(n) == Some("t");
        let word = RoleWord {
            oid: cell(0)?.parse().ok()?,
            name: cell(1)?.to_string(),
            as_of: cell(2)?.parse().ok()?,
            has_settings: is(7),
            version: hash(row.get(8..)?),
        };
        Some(Found {
            word,
            can_login: is(3),
            connection_limit: cell(4)?.parse().ok()?,
            may_connect: is(5),
            verifier: cell(6).map(str::to_string),
        })
    }
}

fn read(rows: &[catalog::Row]) -> Result<Vec<Found>, wire::WireError> {
    rows.iter().map(|row| Found::read(row).ok_or_else(unread)).collect()
}

fn unread() -> wire::WireError {
    wire::WireError::Other("home's answer about a role is not understood")
}

/// Only for this process: two words that differ have two numbers, and nobody outside can find others.
fn hash(cells: &[Option<String>]) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    // The greatest is kept for roles that are gone.
    KEY.get_or_init(RandomState::new).hash_one(cells).min(u64::MAX - 1)
}

impl Judge for Roles {
    fn word(&self, oid: u32) -> Pin<Box<dyn Future<Output = Result<Option<RoleWord>, PoolError>> + Send + '_>> {
        Box::pin(
            async move { Ok(self.ask(&format!("r.oid = {oid}")).await?.into_iter().next().map(|found| found.word)) },
        )
    }

    fn names(&self) -> Pin<Box<dyn Future<Output = Result<String, PoolError>> + Send + '_>> {
        const NAMES: &str = "SELECT pg_catalog.hashtextextended(pg_catalog.string_agg(pg_catalog.concat_ws(' ', oid, rolname), ',' ORDER BY oid), 0) \
             FROM pg_catalog.pg_roles";
        Box::pin(async move {
            let rows = self.own.rows(&self.home, NAMES).await?;
            Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()?).unwrap_or_default())
        })
    }

    fn words(&self, oids: Vec<u32>) -> Pin<Box<dyn Future<Output = Result<Vec<RoleWord>, PoolError>> + Send + '_>> {
        Box::pin(async move {
            let oids: Vec<String> = oids.iter().map(u32::to_string).collect();
            let found = self.ask(&format!("r.oid = ANY ('{{{}}}')", oids.join(","))).await?;
            Ok(found.into_iter().map(|found| found.word).collect())
        })
    }
}
