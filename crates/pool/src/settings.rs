//! Session settings: what a connection has applied, what a session wants, and the SQL that leads from one to the other.
//! What the login of a connection has made of settings of its role is what it has first, and not what a session wants that began
//! before they were changed ([`crate::AtLogin`]). It does not know which settings a session may have, nor when to apply them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::alike::Alike;
use crate::at_login::Defaults;

/// Settings by lower-case name, with values as `SHOW` prints them. Clones are in memory once until one of them changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: Arc<BTreeMap<String, String>>,
    fingerprint: u64,
    /// `standard_conforming_strings` is off: every text that is read asks for it.
    escapes: bool,
    /// Transactions that say nothing else read repeatably: each that begins asks for it.
    repeats: bool,
    /// What the others are, for a session that knows: connections made later may have been given other values.
    defaults: Option<Arc<Defaults>>,
}

/// What PostgreSQL has no RESET for (GUC_NO_RESET in guc_tables.c): what is each transaction's own, which begins with the default of its like, and
/// what the random numbers of one connection follow from. Neither is a setting that other connections of the session are given.
const NOT_KEPT: [&str; 4] = ["seed", "transaction_deferrable", "transaction_isolation", "transaction_read_only"];

const CONFORMING: &str = "standard_conforming_strings";
const ISOLATION: &str = "default_transaction_isolation";

/// How often roles' names may have come to mean others. A server keeps the role a connection was given, not its name.
static ROLES: AtomicU64 = AtomicU64::new(0);

/// Roles may have been renamed or dropped: no connection is taken to have one by its name from now on.
pub(crate) fn roles_may_be_others() {
    ROLES.fetch_add(1, Ordering::Relaxed);
}

/// Differs when it may be so.
pub fn roles_now() -> u64 {
    ROLES.load(Ordering::Relaxed)
}

/// One random key for the whole process, so that fingerprints of two `Settings` compare, and nobody outside can
/// construct two that collide.
pub(crate) fn hash(name: &str, value: &str) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one((name, value))
}

impl Settings {
    /// Equal settings have equal fingerprints; different ones practically never. No settings: 0.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The value of a setting, by its name in any case; `None`: it is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&*lower(name)).map(String::as_str)
    }

    /// Whether backslashes in plain literals escape.
    pub fn escapes(&self) -> bool {
        self.escapes
    }

    /// Whether transactions are REPEATABLE READ or SERIALIZABLE unless they say otherwise.
    pub fn repeats(&self) -> bool {
        self.repeats
    }

    /// A time limit that is to be no longer than `most`, and no longer than the setting says if it says anything.
    pub fn at_most(&self, name: &str, most: Duration) -> Duration {
        match self.get(name).and_then(milliseconds) {
            None | Some(0) => most,
            Some(own) => most.min(Duration::from_millis(own)),
        }
    }

    /// Whether sessions have such a setting, by its name in any case.
    pub fn keeps(name: &str) -> bool {
        !NOT_KEPT.contains(&&*lower(name))
    }

    /// Puts a value in place of the one there is; the case of the name is of no account. What sessions do not keep is passed over.
    pub fn set(&mut self, name: &str, value: &str) {
        let name = lower(name).into_owned();
        if !Settings::keeps(&name) {
            return;
        }
        self.fingerprint ^= hash(&name, value);
        if name == CONFORMING {
            self.escapes = value == "off";
        }
        if name == ISOLATION {
            self.repeats = matches!(value, "repeatable read" | "serializable");
        }
        if let Some(old) = Arc::make_mut(&mut self.values).insert(name.clone(), value.into()) {
            self.fingerprint ^= hash(&name, &old);
        }
    }

    /// These, with one more or another value.
    pub fn with(&self, name: &str, value: &str) -> Settings {
        let mut other = self.clone();
        other.set(name, value);
        other
    }

    /// Forgets a setting, whatever the case of its name.
    pub fn remove(&mut self, name: &str) {
        let name = lower(name);
        if name == CONFORMING {
            self.escapes = false;
        }
        if name == ISOLATION {
            self.repeats = false;
        }
        if !self.values.contains_key(&*name) {
            return;
        }
        if let Some(old) = Arc::make_mut(&mut self.values).remove(&*name) {
            self.fingerprint ^= hash(&name, &old);
        }
    }

    /// Settings that will stay as they are for a while: they are in memory once with all that are the same.
    pub fn share(&mut self) {
        static ALIKE: Alike<BTreeMap<String, String>> = Alike::new();
        self.values = ALIKE.one(self.values.clone());
    }

    /// No setting is known.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Names in lower case, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// From now on the other settings are to be as here, where a login has made something else of them.
    pub fn set_defaults(&mut self, defaults: Option<Arc<Defaults>>) {
        let print = |d: &Option<Arc<Defaults>>| d.as_ref().map_or(0, |d| d.fingerprint());
        self.fingerprint ^= print(&self.defaults) ^ print(&defaults);
        self.defaults = defaults;
    }

    /// What a connection with these settings has, of whose role's settings its login made `login`. `None`: what its server, or
    /// its login, has given it.
    pub fn on<'s>(&'s self, login: &Settings, name: &str) -> Option<&'s str> {
        self.get(name).or_else(|| self.default_on(login, name))
    }

    /// The same of a setting that is not among these.
    pub fn default_on<'s>(&'s self, login: &Settings, name: &str) -> Option<&'s str> {
        login.get(name).and(self.defaults.as_ref()).map(|d| d.get(name))
    }

    /// SQL that makes a connection with these settings one with `wanted`; `None` if they are the same.
    pub(crate) fn sql_to(&self, wanted: &Settings, login: &Settings) -> Option<String> {
        (self.fingerprint != wanted.fingerprint).then(|| self.all_sql_to(wanted, login, false))
    }

    /// Whether they say who the connection works for.
    pub fn have_role(&self) -> bool {
        !self.values.is_empty() && ROLE_NAMES.iter().any(|name| self.values.contains_key(*name))
    }

    /// The same, even if they are the same: with `anew`, roles are given up and taken again. Roles are given up first and
    /// taken last, as other settings may need the privileges of who logged in.
    pub(crate) fn all_sql_to(&self, wanted: &Settings, login: &Settings, anew: bool) -> String {
        let (has, wants) = (|n: &str| self.on(login, n), |n: &str| wanted.on(login, n));
        // Another session user begins without a role.
        let becomes = anew || has(SESSION_USER) != wants(SESSION_USER);
        let changes = |n: &str| has(n) != wants(n) || becomes && ROLE_NAMES.contains(&n);
        let names: BTreeSet<&str> = [self, wanted, login].iter().flat_map(|s| s.iter()).map(|(n, _)| n).collect();

        let mut sql = String::new();
        let leaves_user = has(SESSION_USER).is_some() && (anew || wants(SESSION_USER).is_none());
        if leaves_user {
            let _ = write!(sql, "RESET {SESSION_USER};");
        }
        // Who the session user is again has the role of his login.
        let has_role = if leaves_user { login.get(ROLE) } else { has(ROLE) };
        match (wants(ROLE), has_role) {
            (Some(_), Some(role)) if role != "none" && changes(ROLE) => sql += "SET ROLE none;",
            (None, Some(_)) if changes(ROLE) && !leaves_user && has_role != login.get(ROLE) => sql += "RESET role;",
            _ => {}
        }
        for name in names.iter().filter(|n| !ROLE_NAMES.contains(n) && wants(n).is_none()) {
            if self.get(name).is_some_and(|value| login.get(name) != Some(value)) {
                let parts: Vec<String> = name.split('.').map(catalog::quote_ident).collect();
                let _ = write!(sql, "RESET {};", parts.join("."));
            }
        }
        let mut new: Vec<&str> = names.into_iter().filter(|n| changes(n) && wants(n).is_some()).collect();
        new.retain(|n| !(*n == ROLE && has_role.is_some() && wants(n) == Some("none")));
        new.sort_by_key(|n| rank(n));
        for (i, name) in new.iter().enumerate() {
            let before = if i == 0 { "SELECT " } else { "," };
            sql += before;
            sql += &wanted.call(login, name, false);
        }
        sql
    }

    /// SQL that gives a connection of this login these settings, where RESET would not.
    pub(crate) fn sql_back_to(&self, login: &Settings, names: &[&str], local: bool) -> Option<String> {
        let others = names.iter().filter(|n| self.on(login, n).is_some() && self.on(login, n) != login.get(n));
        let calls: Vec<String> = others.map(|n| self.call(login, n, local)).collect();
        (!calls.is_empty()).then(|| format!("SELECT {}", calls.join(",")))
    }

    /// Unlike SET, set_config takes a list (search_path) as it is shown.
    fn call(&self, login: &Settings, name: &str, local: bool) -> String {
        let value = match self.on(login, name).unwrap_or_default() {
            "" if self.get(name).is_none() && name.contains('.') => never_set(name),
            value => literal(value),
        };
        format!("pg_catalog.set_config({},{value},{local})", literal(name))
    }
}

const ROLE: &str = "role";
const SESSION_USER: &str = "session_authorization";
const ROLE_NAMES: [&str; 2] = [ROLE, SESSION_USER];

fn rank(name: &str) -> u8 {
    match name {
        ROLE => 2,
        SESSION_USER => 1,
        _ => 0,
    }
}

/// What a parameter is that nobody has set: as its extension has it, if that is loaded.
fn never_set(name: &str) -> String {
    let own = format!(
        "SELECT boot_val FROM pg_catalog.pg_settings WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) {}",
        literal(name)
    );
    format!("COALESCE(({own}),'')")
}

fn lower(name: &str) -> std::borrow::Cow<'_, str> {
    match name.bytes().any(|b| b.is_ascii_uppercase()) {
        true => name.to_ascii_lowercase().into(),
        false => name.into(),
    }
}

/// A string literal that means the same whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!(" E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// A time as settings have it: a number, of milliseconds if it has no unit.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim().find(|c: char| !c.is_ascii_digit()).unwrap_or(text.trim().len());
    let (number, unit) = text.trim().split_at(digits);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        // A fraction, or microseconds: short enough to be on the safe side.
        _ => return Some(1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        pairs.iter().for_each(|(n, v)| settings.set(n, v));
        settings
    }

    #[test]
    fn fingerprints_follow_the_values() {
        let a = settings(&[("TimeZone", "UTC"), ("search_path", "a, b")]);
        let mut b = settings(&[("search_path", "x"), ("timezone", "UTC")]);
        assert_ne!(a.fingerprint(), b.fingerprint());
        b.set("SEARCH_PATH", "a, b");
        assert_eq!((a.fingerprint(), &a), (b.fingerprint(), &b));
        b.remove("search_path");
        b.remove("search_path");
        b.remove("timezone");
        assert_eq!((b.fingerprint(), b.is_empty()), (0, true));
        assert_ne!(
            settings(&[("a", "b"), ("b", "a")]).fingerprint(),
            settings(&[("a", "a"), ("b", "b")]).fingerprint()
        );
    }

    /// Of connections whose login has set nothing.
    fn plainly(have: &Settings, want: &Settings) -> Option<String> {
        have.sql_to(want, &Settings::default())
    }

    #[test]
    fn only_what_differs_is_changed_and_roles_come_last() {
        let have = settings(&[("role", "r"), ("datestyle", "ISO"), ("work_mem", "4MB"), ("my.var", "1")]);
        let want = settings(&[("work_mem", "8MB"), ("datestyle", "ISO"), ("role", "o'x"), ("zero", "a\\b")]);
        assert_eq!(plainly(&have, &have), None);
        assert_eq!(
            plainly(&have, &want).unwrap(),
            "SET ROLE none;RESET my.var;SELECT pg_catalog.set_config('work_mem','8MB',false),\
             pg_catalog.set_config('zero', E'a\\\\b',false),pg_catalog.set_config('role','o''x',false)"
        );
        let none = Settings::default();
        assert_eq!(plainly(&have, &none).unwrap(), "RESET role;RESET datestyle;RESET my.var;RESET work_mem;");
    }

    #[test]
    fn another_session_user_begins_without_a_role() {
        let have = settings(&[("role", "r"), ("session_authorization", "s"), ("work_mem", "4MB")]);
        let role = settings(&[("role", "r"), ("work_mem", "4MB")]);
        let again = "SELECT pg_catalog.set_config('role','r',false)";
        assert_eq!(plainly(&have, &role).unwrap(), format!("RESET session_authorization;{again}"));
        // Who is somebody that was dropped may call no function.
        assert_eq!(role.all_sql_to(&role, &Settings::default(), true), format!("SET ROLE none;{again}"));
        let other = settings(&[("role", "r"), ("session_authorization", "t"), ("work_mem", "4MB")]);
        assert_eq!(
            plainly(&have, &other).unwrap(),
            "SET ROLE none;SELECT pg_catalog.set_config('session_authorization','t',false),pg_catalog.set_config('role','r',false)"
        );
    }

    #[test]
    fn what_a_later_login_has_set_is_no_setting_of_the_session() {
        let login = settings(&[("role", "late"), ("work_mem", "9"), ("my.own", "7"), ("timezone", "GMT")]);
        let mut old = settings(&[("timezone", "GMT")]);
        old.set_defaults(Some(Defaults::of([("work_mem".to_string(), "4096".to_string())].into())));
        let sql = login.sql_to(&old, &login).unwrap();
        assert!(
            sql.starts_with("SET ROLE none;SELECT pg_catalog.set_config('my.own',COALESCE((SELECT boot_val"),
            "{sql}"
        );
        assert!(sql.ends_with("pg_catalog.set_config('work_mem','4096',false)"), "{sql}");
        // It is the session's now; another like it needs nothing, one that began later all of it.
        assert_eq!(old.sql_to(&old.clone(), &login), None);
        let back = old.sql_to(&login, &login).unwrap();
        assert_eq!(
            back,
            "SELECT pg_catalog.set_config('my.own','7',false),pg_catalog.set_config('work_mem','9',false),\
             pg_catalog.set_config('role','late',false)"
        );
        // Who became somebody has the login's role again when he is himself.
        let mut other = old.clone();
        other.set("session_authorization", "s");
        assert_eq!(other.sql_to(&old, &login).unwrap(), "RESET session_authorization;SET ROLE none;");
        // A session that began while home was away takes what its connections have.
        let unknowing = settings(&[("timezone", "GMT")]);
        assert_eq!(login.sql_to(&unknowing, &login).unwrap(), "");
    }

    #[test]
    fn times_are_read_as_settings_have_them() {
        assert_eq!(milliseconds("1500"), Some(1500));
        assert_eq!(milliseconds(" 2 s"), Some(2000));
        assert_eq!(milliseconds("1h"), Some(3_600_000));
        assert_eq!(milliseconds("0.5s"), Some(1));
        assert_eq!(milliseconds("s"), None);
        let own = settings(&[("lock_timeout", "1s"), ("statement_timeout", "0")]);
        let most = Duration::from_millis(20);
        assert_eq!(own.at_most("lock_timeout", most), most);
        assert_eq!(own.at_most("statement_timeout", most), most);
        assert_eq!(settings(&[("lock_timeout", "5")]).at_most("lock_timeout", most), Duration::from_millis(5));
    }
}
