//! What leaves something behind in a session when it runs: functions that may set a parameter, make a temporary table,
//! take a lock of the session, and everything that calls such a function by itself (triggers, views, defaults, policies).
//!
//! Bodies are searched for words, in comments and strings as well. A body without any of the words below, without the name of
//! a function of PostgreSQL's own that leaves something ([`lasting`]), and without the name of what has one, can do no such thing in SQL
//! and PL/pgSQL: what is run as a string takes `EXECUTE` or one of the functions that run strings. Other languages are taken
//! to do anything. Expressions (defaults, CHECKs, policies, …) are searched as PostgreSQL keeps them, by functions' numbers.

mod lasting;
mod reach;
mod used;

use std::collections::HashSet;

use self::reach::{Body, Reach, is_word};
use self::used::used;
use super::facts::NOT_SYSTEM;
use crate::load::cells;
use crate::{CatalogError, Query, SessionCode, Snapshot, quote_literal};

/// What of SQL and pg_catalog outlives the statement it stands in.
const WORDS: &[&str] = &[
    "set",
    "reset",
    "set_config",
    "setseed",
    "discard",
    "load",
    "listen",
    "unlisten",
    "prepare",
    "deallocate",
    "temp",
    "temporary",
    "pg_temp",
    // Of a temporary table, which hid another.
    "drop",
    "alter",
    "hold",
    "execute",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    // The view whose UPDATE sets parameters.
    "pg_settings",
];
/// What PostgreSQL remembers for the session, in functions. Defaults are followed by other means (`exec::Sequences`).
const SEQUENCES: &[&str] = &["nextval", "setval", "currval", "lastval"];

/// A function's name, its body, and whether its language can be looked into.
type Source = (String, String, bool);

async fn sources<Q: Query>(q: &mut Q) -> Result<Vec<Source>, CatalogError<Q::Error>> {
    // An aggregate's body is the functions it calls. Of extensions only the functions' own names count.
    let sql = format!(
        "SELECT p.proname, \
                CASE WHEN a.aggfnoid IS NOT NULL THEN concat_ws(' ', a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggmfinalfn) \
                     WHEN l.lanname NOT IN ('c', 'internal') \
                     THEN concat_ws(' ', p.prosrc, herd.code_in(p.prosqlbody::text), herd.code_in(p.proargdefaults::text)) END, \
                a.aggfnoid IS NOT NULL OR l.lanname IN ('sql', 'plpgsql') \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang \
         LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid \
         WHERE {NOT_SYSTEM} AND NOT EXISTS (SELECT FROM pg_depend e \
               WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')"
    );
    let mut found = Vec::new();
    for mut row in cells(q, &sql).await? {
        found.push((row.text(), row.text(), row.boolean()));
    }
    Ok(found)
}

#[derive(Default)]
struct Names {
    words: HashSet<String>,
    /// Names that are not one word, such as `"order lines"`, are searched for as text.
    odd: Vec<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        let name = name.to_lowercase();
        if name.chars().all(is_word) {
            self.words.insert(name);
        } else {
            self.odd.push(name.replace('"', "\"\""));
        }
    }
}

impl Body {
    fn mentions(&self, names: &Names) -> bool {
        !self.words.is_disjoint(&names.words) || names.odd.iter().any(|name| self.text.contains(name))
    }
}

pub(super) async fn load<Q: Query>(q: &mut Q, snapshot: &mut Snapshot) -> Result<(), CatalogError<Q::Error>> {
    let sources = sources(q).await?;
    let mut reached = Names::default();
    WORDS.iter().for_each(|w| reached.add(w));
    let mut clean: Vec<(String, Body, bool)> =
        sources.into_iter().map(|(name, text, known)| (name, Body::of(&text), known)).collect();
    // Of a view that somebody has locked nothing is known.
    let views = snapshot
        .relations
        .values()
        .filter_map(|r| Some((r.name.clone(), Body::of(&r.view.as_ref()?.query), !snapshot.locked.contains(&r.oid))));
    clean.extend(views);
    let lasting = lasting::names(snapshot);
    lasting.iter().for_each(|name| reached.add(name));
    let mut sequences = Names::default();
    SEQUENCES.iter().for_each(|w| sequences.add(w));
    let calling: Vec<String> =
        clean.iter().filter(|(_, body, _)| body.mentions(&sequences)).map(|(name, ..)| name.clone()).collect();
    let own = used(q, &lasting).await?;
    if calling.is_empty() && !own.anything() && !clean.iter().any(|(_, body, known)| !known || body.mentions(&reached))
    {
        snapshot.session_code = SessionCode::default();
        return Ok(());
    }
    for mut row in cells(q, &relations(&lasting)).await? {
        clean.push((row.text(), Body::of(&row.text()), true));
    }
    let mut strings = strings();
    lasting.iter().filter(|name| lasting::runs(name)).for_each(|name| strings.add(name));
    let mut code = SessionCode::default();
    for (_, body, _) in &clean {
        settings_read(&body.text, &mut code.settings);
    }
    let mut reach = Reach::new(clean.iter().map(|(_, body, _)| body));
    let mut names: Vec<String> =
        WORDS.iter().map(|w| w.to_string()).chain(lasting.iter().map(|l| l.to_string())).collect();
    for name in calling {
        code.names.insert(name.clone());
        code.sequences.insert(name.clone());
        names.push(name);
    }
    let mut callers = Vec::new();
    let mut hit: Vec<usize> = (0..clean.len()).filter(|at| !clean[*at].2 && reach.take(*at)).collect();
    loop {
        for at in hit {
            let (name, body, known) = &clean[at];
            code.opaque |= !known || body.mentions(&strings) || names_at_run_time(&body.text);
            settings_set(&body.text, &mut code.settings);
            code.names.insert(name.clone());
            names.push(name.clone());
            callers.push((name, body));
        }
        let Some(name) = names.pop() else { break };
        hit = reach.mentioning(&name);
    }
    code.calls_sequences(&callers);
    code.anywhere = own.anywhere;
    if !code.anywhere && !code.names.is_empty() {
        let names: Vec<&String> = code.names.iter().collect();
        code.anywhere = used(q, &names).await?.anywhere;
    }
    code.settings.sort_unstable();
    code.settings.dedup();
    snapshot.session_code = code;
    Ok(())
}

impl SessionCode {
    /// Whatever calls what may take or ask for values of sequences may do so, too.
    fn calls_sequences(&mut self, callers: &[(&String, &Body)]) {
        let mut reach = Reach::new(callers.iter().map(|(_, body)| *body));
        let mut names: Vec<String> = self.sequences.iter().cloned().collect();
        while let Some(name) = names.pop() {
            for at in reach.mentioning(&name) {
                self.sequences.insert(callers[at].0.clone());
                names.push(callers[at].0.clone());
            }
        }
    }
}

/// Each relation with the names in what runs by itself when it is read or written: without a lock, which printing would take.
fn relations(lasting: &[String]) -> String {
    // Most expressions have only operators and functions of PostgreSQL's own that leave nothing: those need no closer look.
    let words: Vec<String> = WORDS
        .iter()
        .chain(SEQUENCES)
        .copied()
        .chain(["current_setting"])
        .chain(lasting.iter().map(String::as_str))
        .map(quote_literal)
        .collect();
    let names = |tree: &str| {
        format!("CASE WHEN {tree}::text ~ (SELECT t.what FROM telling t) THEN herd.code_in({tree}::text) END")
    };
    format!(
        "WITH telling (what) AS (SELECT concat(':relid |:(?:funcid|opfuncid|aggfnoid|winfnoid) (?:[0-9]{{5}}|(?:', \
                                               string_agg(p.oid::text, '|'), ') )') \
                                   FROM pg_proc p WHERE p.oid < 16384 AND p.proname IN ({})) \
         SELECT c.relname, concat_ws(' ', \
            (SELECT string_agg({}, ' ') FROM pg_attrdef d WHERE d.adrelid = c.oid), \
            (SELECT string_agg({}, ' ') FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'), \
            (SELECT string_agg(concat_ws(' ', {}, {}), ' ') FROM pg_policy l WHERE l.polrelid = c.oid), \
            (SELECT string_agg(p.proname, ' ') FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = c.oid AND NOT t.tgisinternal), \
            (SELECT string_agg({}, ' ') FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgqual IS NOT NULL), \
            (SELECT string_agg(concat_ws(' ', {}, {}), ' ') FROM pg_index i WHERE i.indrelid = c.oid), \
            (SELECT {} FROM pg_partitioned_table t WHERE t.partrelid = c.oid), \
            (SELECT string_agg(herd.code_in(r.ev_action::text), ' ') FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'), \
            (SELECT string_agg(x.relname, ' ') FROM pg_constraint k JOIN pg_class x ON x.oid = k.conrelid WHERE k.confrelid = c.oid AND x.oid <> c.oid), \
            (SELECT string_agg(x.relname, ' ') FROM pg_inherits i JOIN pg_class x ON x.oid = i.inhrelid WHERE i.inhparent = c.oid)) \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {NOT_SYSTEM}",
        words.join(", "),
        names("d.adbin"),
        names("k.conbin"),
        names("l.polqual"),
        names("l.polwithcheck"),
        names("t.tgqual"),
        names("i.indexprs"),
        names("i.indpred"),
        names("t.partexprs"),
    )
}

/// What runs a string that is put together at run time: no name can be found in it.
fn strings() -> Names {
    let mut names = Names::default();
    names.add("execute");
    names
}

/// Names in `current_setting('…')` of custom parameters.
fn settings_read(text: &str, found: &mut Vec<String>) {
    found.extend(literals_behind(text, "current_setting").flatten().filter_map(|n| custom(&n)));
}

/// Names in `set_config('…')` and `SET x.y`.
fn settings_set(text: &str, found: &mut Vec<String>) {
    found.extend(literals_behind(text, "set_config").flatten().filter_map(|n| custom(&n)));
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if !word.ends_with("set") {
            continue;
        }
        while words.next_if(|w| matches!(*w, "local" | "session")).is_some() {}
        let name: String = words.peek().unwrap_or(&"").chars().take_while(|c| is_word(*c) || *c == '.').collect();
        found.extend(custom(&name));
    }
}

fn names_at_run_time(text: &str) -> bool {
    literals_behind(text, "set_config").any(|name| name.is_none())
}

/// For each call of a function: its first argument; `None` if that is no literal.
fn literals_behind<'t>(text: &'t str, function: &'t str) -> impl Iterator<Item = Option<String>> + 't {
    text.match_indices(function).map(move |(at, _)| {
        let rest = text[at + function.len()..].trim_start().strip_prefix('(')?.trim_start();
        let name = rest.strip_prefix('\'')?.split('\'').next()?;
        Some(name.to_string())
    })
}

fn custom(name: &str) -> Option<String> {
    (name.contains('.') && !name.starts_with('.')).then(|| name.to_string())
}

impl SessionCode {
    /// Whether a statement that names this function or relation may leave something behind.
    pub fn is_named(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether code given as text (DO, CALL) names such a function or relation.
    pub fn is_called_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let words: HashSet<&str> = text.split(|c| !is_word(c)).collect();
        self.anywhere || self.names.iter().any(|n| words.contains(&*n.to_lowercase()))
    }

    /// Whether code given as text may take or ask for values of sequences.
    pub fn sequences_in(&self, text: &str) -> bool {
        let mut names = Names::default();
        SEQUENCES.iter().for_each(|w| names.add(w));
        self.sequences.iter().for_each(|name| names.add(name));
        Body::of(text).mentions(&names)
    }

    /// Whether code given as text may leave something behind by itself.
    pub fn is_text(text: &str) -> bool {
        let mut words = Names::default();
        WORDS.iter().chain(SEQUENCES).for_each(|w| words.add(w));
        Body::of(text).mentions(&words)
    }

    /// Names of custom parameters that code given as text may set.
    pub fn settings_in(text: &str) -> (Vec<String>, bool) {
        let text = text.to_lowercase();
        let mut found = Vec::new();
        settings_set(&text, &mut found);
        let body = Body::of(&text);
        let runs = body.mentions(&strings()) || body.words.iter().any(|word| lasting::runs(word));
        (found, names_at_run_time(&text) || runs)
    }
}
