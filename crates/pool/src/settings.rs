//! Session settings: what a connection has applied, what a session wants, and the SQL that leads from one to the other.
//! It does not know which settings a session may have, nor when to apply them.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Settings by lower-case name, with values as `SHOW` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, String>,
    fingerprint: u64,
}

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
fn hash(name: &str, value: &str) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one((name, value))
}

impl Settings {
    /// Equal settings have equal fingerprints; different ones practically never. No settings: 0.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&*lower(name)).map(String::as_str)
    }

    /// A time limit that is to be no longer than `most`, and no longer than the setting says if it says anything.
    pub fn at_most(&self, name: &str, most: Duration) -> Duration {
        match self.get(name).and_then(milliseconds) {
            None | Some(0) => most,
            Some(own) => most.min(Duration::from_millis(own)),
        }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        let name = lower(name).into_owned();
        self.fingerprint ^= hash(&name, value);
        if let Some(old) = self.values.insert(name.clone(), value.into()) {
            self.fingerprint ^= hash(&name, &old);
        }
    }

    pub fn remove(&mut self, name: &str) {
        let name = lower(name);
        if let Some(old) = self.values.remove(&*name) {
            self.fingerprint ^= hash(&name, &old);
        }
    }

    pub fn clear(&mut self) {
        *self = Settings::default();
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// SQL that makes a connection with these settings one with `wanted`; `None` if they are the same. Roles are given
    /// up first and taken last, as other settings may need the privileges of who logged in.
    pub fn sql_to(&self, wanted: &Settings) -> Option<String> {
        (self.fingerprint != wanted.fingerprint).then(|| self.all_sql_to(wanted, false))
    }

    /// Whether they say who the connection works for.
    pub(crate) fn have_role(&self) -> bool {
        !self.values.is_empty() && ROLE_NAMES.iter().any(|name| self.values.contains_key(*name))
    }

    /// The same, even if they are the same: with `anew`, roles are given up and taken again.
    pub(crate) fn all_sql_to(&self, wanted: &Settings, anew: bool) -> String {
        // Another session user begins without a role.
        let becomes = anew || self.get("session_authorization") != wanted.get("session_authorization");
        let kept = |name: &str, value: &str| self.get(name) == Some(value) && !(becomes && ROLE_NAMES.contains(&name));
        let mut gone: Vec<&str> =
            self.iter().map(|(n, _)| n).filter(|n| wanted.get(n).is_none() || anew && ROLE_NAMES.contains(n)).collect();
        gone.sort_by_key(|n| std::cmp::Reverse(rank(n)));
        let mut new: Vec<(&str, &str)> = wanted.iter().filter(|(n, v)| !kept(n, v)).collect();
        new.sort_by_key(|(n, _)| rank(n));
        let mut sql = String::new();
        for name in gone {
            let parts: Vec<String> = name.split('.').map(catalog::quote_ident).collect();
            let _ = write!(sql, "RESET {};", parts.join("."));
        }
        for (i, (name, value)) in new.iter().enumerate() {
            // Unlike SET, set_config takes a list (search_path) as it is shown.
            let before = if i == 0 { "SELECT " } else { "," };
            let _ = write!(sql, "{before}pg_catalog.set_config({},{},false)", literal(name), literal(value));
        }
        sql
    }
}

const ROLE_NAMES: [&str; 2] = ["role", "session_authorization"];

fn rank(name: &str) -> u8 {
    match name {
        "role" => 2,
        "session_authorization" => 1,
        _ => 0,
    }
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

    #[test]
    fn only_what_differs_is_changed_and_roles_come_last() {
        let have = settings(&[("role", "r"), ("datestyle", "ISO"), ("work_mem", "4MB"), ("my.var", "1")]);
        let want = settings(&[("work_mem", "8MB"), ("datestyle", "ISO"), ("role", "o'x"), ("zero", "a\\b")]);
        assert_eq!(have.sql_to(&have), None);
        assert_eq!(
            have.sql_to(&want).unwrap(),
            "RESET my.var;SELECT pg_catalog.set_config('work_mem','8MB',false),\
             pg_catalog.set_config('zero', E'a\\\\b',false),pg_catalog.set_config('role','o''x',false)"
        );
        let none = Settings::default();
        assert_eq!(have.sql_to(&none).unwrap(), "RESET role;RESET datestyle;RESET my.var;RESET work_mem;");
    }

    #[test]
    fn another_session_user_begins_without_a_role() {
        let have = settings(&[("role", "r"), ("session_authorization", "s"), ("work_mem", "4MB")]);
        let role = settings(&[("role", "r"), ("work_mem", "4MB")]);
        let again = "SELECT pg_catalog.set_config('role','r',false)";
        assert_eq!(have.sql_to(&role).unwrap(), format!("RESET session_authorization;{again}"));
        // Who is somebody that was dropped may call no function.
        assert_eq!(role.all_sql_to(&role, true), format!("RESET role;{again}"));
        let other = settings(&[("role", "r"), ("session_authorization", "t"), ("work_mem", "4MB")]);
        assert_eq!(
            have.sql_to(&other).unwrap(),
            "SELECT pg_catalog.set_config('session_authorization','t',false),pg_catalog.set_config('role','r',false)"
        );
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
