//! What leaves something behind in a session when it runs: functions that may set a parameter, make a temporary table,
//! take a lock of the session, and everything that calls such a function by itself (triggers, views, defaults, policies).
//!
//! Bodies are searched for words, in comments and strings as well. A body without any of the words below, without the name of
//! a function of PostgreSQL's own that leaves something ([`lasting`]), and without the name of what has one, can do no such thing in SQL
//! and PL/pgSQL: each kind of statement begins with a keyword, which can be written in one way only. What is run as a string may be
//! written in many, and so what runs one counts by itself, whatever the string: `EXECUTE`, `DO` ([`keywords`]), `CREATE` (of functions),
//! and the functions that run strings. `CREATE` and `SELECT INTO` count, too, as where they make a table the search path says:
//! that may be the session's own schema for temporary ones. Other languages are taken to do anything. Expressions (defaults, CHECKs,
//! policies, …) are searched as PostgreSQL keeps them, by functions' numbers.
//!
//! Found by names alone is all that might count for anybody; what of it counts for a statement, its search path tells
//! ([`SessionCode`]).

mod behind;
mod body;
mod keywords;
mod lasting;
mod reach;
mod used;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use self::body::{Body, is_word};
use self::reach::Reach;
use self::used::used;
use super::facts::NOT_SYSTEM;
use crate::code::TAKE_TYPES;
use crate::load::{others_turn, reading};
use crate::session_code::{Left, Path, SessionCode, Thing, lower};
use crate::{CatalogError, Oid, Query, Snapshot, quote_literal};

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
    // In pg_temp, if that is first in the search path; functions with any text.
    "create",
    "import",
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

/// Something with a text that may mention what leaves something.
struct Source {
    schema: String,
    name: String,
    body: Arc<Body>,
    owner: Oid,
    /// Its language can be looked into.
    known: bool,
    /// It makes a table by SELECT INTO.
    selects_into: bool,
    operator: bool,
    /// An operator or a type.
    by_type: bool,
    path: Path,
}

impl Source {
    /// A body that nobody has read yet takes its time: others are served in between.
    async fn of(schema: String, name: String, text: &str) -> Self {
        let body = match Body::kept(text) {
            Some(body) => body,
            None => {
                others_turn().await;
                Body::keep(text)
            }
        };
        // Names that are written by their characters' numbers are found in no text.
        let known = !body.text.contains(ESCAPED);
        let path = Path::Callers;
        Source { schema, name, body, known, selects_into: false, owner: 0, operator: false, by_type: false, path }
    }

    /// By its owner's or its own settings.
    fn under(self, path: Option<String>, as_another: bool) -> Self {
        let path = match path {
            Some(p) if as_another || p.contains(['"', '$']) => Path::Any,
            Some(p) => Path::Own(p.split(',').map(|name| lower(name.trim())).collect()),
            None if as_another => Path::Any,
            None => Path::Callers,
        };
        Source { path, ..self }
    }
}

const ESCAPED: &str = "u&\"";
/// Names of parameters that the code of one owner reads: those of his that come behind them are asked of nobody.
const READ_MAX: usize = 256;

async fn sources<Q: Query>(q: &mut Q) -> Result<Vec<Source>, CatalogError<Q::Error>> {
    // `code_in` looks through all types of users' own: it is not called for every routine that has no tree. An aggregate's body is the functions it calls. Of extensions only the functions' own names count: those that a superuser
    // has, as whoever owns an extension may put functions of his own into it. A definer's "$user" is not the caller's, nor are the
    // schemas he may use; a path of the function's own is the same for all.
    let sql = format!(
        "SELECT n.nspname, p.proname, \
                concat_ws(' ', CASE WHEN NOT d.is_read THEN NULL WHEN a.aggfnoid IS NOT NULL THEN concat_ws(' ', a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggmfinalfn) \
                     WHEN l.lanname NOT IN ('c', 'internal') \
                     THEN concat_ws(' ', p.prosrc, CASE WHEN p.prosqlbody IS NOT NULL THEN herd.code_in(p.prosqlbody::text) END, \
                                     CASE WHEN p.proargdefaults IS NOT NULL THEN herd.code_in(p.proargdefaults::text) END) END, \
                     (SELECT string_agg(format_type(t.oid, NULL), ' ') \
                        FROM unnest(COALESCE(p.proallargtypes, p.proargtypes::oid[]) || p.prorettype) t (oid) WHERE t.oid >= 16384)), \
                d.is_read AND (a.aggfnoid IS NOT NULL OR l.lanname IN ('sql', 'plpgsql')), \
                (SELECT substr(c, length('search_path=') + 1) FROM unnest(p.proconfig) c WHERE c LIKE 'search\\_path=%'), \
                p.prosecdef AND NOT EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c LIKE 'search\\_path=%') \
                OR EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c ~ '^(role|session_authorization)='), p.proowner, l.lanname = 'sql' \
         FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang \
         JOIN herd.code_read() d ON d.routine = p.oid \
         LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid \
         WHERE {NOT_SYSTEM} AND NOT EXISTS (SELECT FROM pg_depend e JOIN pg_roles r ON r.oid = p.proowner AND r.rolsuper \
               WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')"
    );
    let mut found = Vec::new();
    let mut rows = reading(q, &sql).await?;
    while let Some(mut row) = rows.next().await {
        let source = Source::of(row.text(), row.text(), &row.text()).await;
        let known = row.boolean() && source.known;
        let (path, as_another, owner) = (row.opt(), row.boolean(), row.number()?);
        let selects_into = source.body.selects_into && row.boolean();
        found.push(Source { known, owner, selects_into, ..source.under(path, as_another) });
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
    fn of(words: &[&str]) -> Self {
        let mut names = Names::default();
        words.iter().for_each(|word| names.add(word));
        names
    }

    fn add(&mut self, name: &str) {
        let name = lower(name);
        if name.chars().all(is_word) {
            self.words.insert(name);
        } else {
            self.odd.push(name);
        }
    }
}

impl Body {
    fn mentions(&self, names: &Names) -> bool {
        self.among(&names.words).next().is_some() || names.odd.iter().any(|name| self.has(name))
    }

    fn mentioned<'b>(&'b self, names: &'b Names) -> impl Iterator<Item = String> + 'b {
        let words = self.among(&names.words).map(str::to_string);
        words.chain(names.odd.iter().filter(|name| self.has(name)).cloned())
    }

    fn has(&self, odd: &str) -> bool {
        self.text.contains(&odd.replace('"', "\"\""))
    }
}

pub(super) async fn load<Q: Query>(q: &mut Q, snapshot: &mut Snapshot) -> Result<(), CatalogError<Q::Error>> {
    let mut all = sources(q).await?;
    // Of a view that somebody has locked nothing is known.
    let routines = all.len();
    for r in snapshot.relations.values() {
        let Some(view) = &r.view else { continue };
        let source = Source::of(r.schema.clone(), r.name.clone(), &view.query).await;
        let known = source.known && !snapshot.locked.contains(&r.oid);
        all.push(Source { known, ..source });
    }
    let mut lasting = lasting::names(snapshot);
    let leaving = leaving_names(&lasting);
    let sequences = Names::of(SEQUENCES);
    let takes_values = |source: &Source| source.body.mentions(&sequences);
    let leaves = |source: &Source, leaving: &Names| {
        !source.known || source.body.runs_block || source.selects_into || source.body.mentions(leaving)
    };
    snapshot.session_code = SessionCode::default();
    if !all.iter().any(|s| leaves(s, &leaving) || takes_values(s)) && !used(q, &lasting).await? {
        return Ok(());
    }
    // Sequences of columns are followed by other means.
    let called = all.len();
    relations(q, &lasting, &mut all).await?;
    let owners: HashMap<(&str, &str), Oid> = all[called..].iter().map(|s| ((&*s.schema, &*s.name), s.owner)).collect();
    let of_views = all[routines..called].iter().map(|s| owners.get(&(&*s.schema, &*s.name)).copied().unwrap_or(0));
    let of_views: Vec<Oid> = of_views.collect();
    all[routines..called].iter_mut().zip(of_views).for_each(|(source, owner)| source.owner = owner);
    behind::load(q, snapshot, &mut all).await?;

    let first =
        |leaving: &Names, at: usize, source: &Source| leaves(source, leaving) || at < called && takes_values(source);
    let mut found = reached(&all, &lasting, |at, source| first(&leaving, at, source));
    let mut leaving = leaving;
    // What is told a type may run any: of none that leaves something, nothing.
    if found.iter().any(|at| all[*at].by_type) {
        lasting.extend(TAKE_TYPES.iter().map(|name| name.to_string()));
        leaving = leaving_names(&lasting);
        found = reached(&all, &lasting, |at, source| first(&leaving, at, source));
    }
    let reached = found;
    // What is in pg_temp may be anything.
    let mut strings = Names::of(&["execute", "pg_temp"]);
    lasting.iter().filter(|name| lasting::runs(name)).for_each(|name| strings.add(name));
    let opaque = |source: &Source| {
        !source.known || source.body.sets_unknown || source.body.holds_texts() || source.body.mentions(&strings)
    };
    let says = |at: usize, source: &Source| (leaves(source, &leaving), at < called && takes_values(source));
    let things = things(&all, &reached, opaque, says);
    snapshot.session_code = SessionCode::of(things);
    snapshot.session_code.read = read(&all);
    Ok(())
}

/// What leaves something, by its name.
fn leaving_names(lasting: &[String]) -> Names {
    let mut names = Names::of(WORDS);
    lasting.iter().for_each(|name| names.add(name));
    names
}

/// Parameters that code reads, up to so many of each owner's.
fn read(all: &[Source]) -> Vec<String> {
    let mut owners: BTreeMap<Oid, BTreeSet<&str>> = BTreeMap::new();
    for source in all.iter().filter(|source| !source.body.reads.is_empty()) {
        owners.entry(source.owner).or_default().extend(source.body.reads.iter().map(String::as_str));
    }
    let all: BTreeSet<&str> = owners.values().flat_map(|names| names.iter().take(READ_MAX)).copied().collect();
    all.into_iter().map(str::to_string).collect()
}

/// What may leave something, or mentions what may, and so on: by names alone.
fn reached(all: &[Source], lasting: &[String], is_first: impl Fn(usize, &Source) -> bool) -> Vec<usize> {
    let known = all.iter().map(|s| lower(&s.name));
    let known = known.chain(WORDS.iter().map(|w| w.to_string())).chain(lasting.iter().map(|n| lower(n)));
    let mut reach = Reach::new(all.iter().map(|s| &*s.body), &known.collect());
    let mut names: Vec<&str> = WORDS.iter().copied().chain(lasting.iter().map(String::as_str)).collect();
    let mut found = Vec::new();
    let mut hit: Vec<usize> = (0..all.len()).filter(|at| is_first(*at, &all[*at]) && reach.take(*at)).collect();
    loop {
        for &at in &hit {
            found.push(at);
            names.push(&all[at].name);
        }
        if hit.iter().any(|at| all[*at].operator) {
            // Whoever calls it need not write its name.
            found.extend((0..all.len()).filter(|at| reach.take(*at)));
            return found;
        }
        let Some(name) = names.pop() else { return found };
        hit = reach.mentioning(name);
    }
}

/// Of those that were reached, what each of them mentions.
fn things(
    all: &[Source],
    reached: &[usize],
    opaque: impl Fn(&Source) -> bool,
    says: impl Fn(usize, &Source) -> (bool, bool),
) -> Vec<Thing> {
    let mut names = Names::default();
    for source in reached.iter().map(|at| &all[*at]) {
        names.add(&source.schema);
        if !source.operator {
            names.add(&source.name);
        }
    }
    let thing = |at: &usize| {
        let source = &all[*at];
        let (leaves, sequences) = says(*at, source);
        Thing {
            schema: lower(&source.schema),
            name: lower(&source.name),
            operator: source.operator,
            by_type: source.by_type,
            leaves: leaves || sequences,
            sequences,
            mentions: source.body.mentioned(&names).collect(),
            path: source.path.clone(),
            settings: source.body.sets.clone(),
            opaque: opaque(source),
        }
    };
    reached.iter().map(thing).collect()
}

/// Each relation with the names in what runs by itself when it is read or written, and with its columns' types: without a lock, which
/// printing would take.
async fn relations<Q: Query>(
    q: &mut Q,
    lasting: &[String],
    all: &mut Vec<Source>,
) -> Result<(), CatalogError<Q::Error>> {
    let mut rows = reading(q, &question(lasting)).await?;
    while let Some(mut row) = rows.next().await {
        let source = Source::of(row.text(), row.text(), &row.text()).await;
        let (cascading, owner) = (row.opt(), row.number()?);
        // What foreign keys do, they do as the other table's owner.
        if let Some(text) = cascading {
            let cascading = Source::of(source.schema.clone(), source.name.clone(), &text).await;
            all.push(cascading.under(None, true));
        }
        all.push(Source { owner, ..source });
    }
    Ok(())
}

/// Where a stored tree has values of users' own types, as `herd.code_in` reads it.
const TYPES: &str = "typ(?:e|id|eid|eId) [0-9]{5}|types \\(o [0-9 ]*[0-9]{5}";

fn question(lasting: &[String]) -> String {
    // Most expressions have only operators, types and functions of PostgreSQL's own that leave nothing: those need no closer look.
    let words: Vec<String> = WORDS
        .iter()
        .chain(SEQUENCES)
        .copied()
        .chain(["current_setting"])
        .chain(TAKE_TYPES.iter().copied())
        .chain(lasting.iter().map(String::as_str))
        .map(quote_literal)
        .collect();
    let names = |tree: &str| {
        format!("CASE WHEN {tree}::text ~ (SELECT t.what FROM telling t) THEN herd.code_in({tree}::text) END")
    };
    format!(
        "WITH telling (what) AS (SELECT concat(':relid |{TYPES}|:(?:funcid|opfuncid|aggfnoid|winfnoid) (?:[0-9]{{5}}|(?:', \
                                               string_agg(p.oid::text, '|'), ') )') \
                                   FROM pg_proc p WHERE p.oid < 16384 AND p.proname IN ({})) \
         SELECT n.nspname, c.relname, concat_ws(' ', \
            (SELECT string_agg({}, ' ') FROM pg_attrdef d WHERE d.adrelid = c.oid), \
            (SELECT string_agg({}, ' ') FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'), \
            (SELECT string_agg(concat_ws(' ', {}, {}), ' ') FROM pg_policy l WHERE l.polrelid = c.oid), \
            (SELECT string_agg(t.tgfoid::regproc::text, ' ') FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal), \
            (SELECT string_agg({}, ' ') FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgqual IS NOT NULL), \
            (SELECT string_agg(concat_ws(' ', {}, {}), ' ') FROM pg_index i WHERE i.indrelid = c.oid), \
            (SELECT {} FROM pg_partitioned_table t WHERE t.partrelid = c.oid), \
            (SELECT string_agg(herd.code_in(r.ev_action::text), ' ') FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'), \
            (SELECT string_agg(DISTINCT format_type(a.atttypid, NULL), ' ') FROM pg_attribute a \
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384), \
            (SELECT string_agg(i.inhrelid::regclass::text, ' ') FROM pg_inherits i WHERE i.inhparent = c.oid)), \
            (SELECT string_agg(k.conrelid::regclass::text, ' ') FROM pg_constraint k \
              WHERE k.confrelid = c.oid AND k.conrelid <> c.oid AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))), \
            c.relowner \
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

impl SessionCode {
    /// What may be left by what code given as text (DO, CALL) runs.
    pub fn called_in(&self, text: &str, path: &[String]) -> Option<Left> {
        let body = Body::of(text);
        let called = self.leaves(body.mentioned(&self.names()).collect::<Vec<_>>().iter().map(String::as_str), path);
        // What is told a type may run any.
        let told = self.by_types && body.mentions(&Names::of(TAKE_TYPES));
        Left::both(called, told.then(|| self.left_by_types()).flatten())
    }

    /// Whether code given as text may take or ask for values of sequences.
    pub fn sequences_in(&self, text: &str, path: &[String]) -> bool {
        let body = Body::of(text);
        let words: Vec<String> = body.mentioned(&self.names()).collect();
        body.mentions(&Names::of(SEQUENCES)) || self.takes_values(words.iter().map(String::as_str), path)
    }

    /// Whether code given as text may leave something behind by itself.
    pub fn is_text(text: &str) -> bool {
        let body = Body::of(text);
        body.text.contains(ESCAPED)
            || body.runs_block
            || body.mentions(&Names::of(WORDS))
            || body.mentions(&Names::of(SEQUENCES))
    }

    fn names(&self) -> Names {
        let mut names = Names::default();
        self.all_names().for_each(|name| names.add(name));
        names
    }

    /// Names of custom parameters that code given as text may set.
    pub fn settings_in(text: &str) -> (Vec<String>, bool) {
        let body = Body::of(text);
        let runs = body.has_word("execute") || body.has_word("pg_temp") || body.words().any(lasting::runs);
        let unknown = body.sets_unknown || body.holds_texts() || runs || body.text.contains(ESCAPED);
        (body.sets, unknown)
    }
}
