//! A materialized view's query runs through the router with no more around it than SET ROLE: whoever has become the view's owner lends
//! what he logged in as to all code that the query reaches. So it reaches none of users' own then, whatever that code does. What it
//! reaches PostgreSQL's catalog on home says: what depends on what, and for what is not written down there (types that JSON_VALUE and its
//! like are told) the trees themselves.

use std::fmt::Write as _;

use catalog::code::{RUN_TEXT, TAKE_TYPES};
use catalog::{quote_ident, quote_literal};
use wire::sqlstate;
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// What hangs on a relation and runs when it is read or when that is planned: the object's catalog, its object id, the catalog with the
/// relation's, more conditions.
const HANGING: [(&str, &str, &str, &str); 7] = [
    ("pg_rewrite", "oid", "ev_class", "x.ev_type OPERATOR(pg_catalog.=) '1'"),
    ("pg_policy", "oid", "polrelid", "true"),
    ("pg_index", "indexrelid", "indrelid", "true"),
    ("pg_statistic_ext", "oid", "stxrelid", "true"),
    ("pg_constraint", "oid", "conrelid", "x.contype OPERATOR(pg_catalog.=) 'c'"),
    ("pg_inherits", "inhrelid", "inhparent", "true"),
    (
        "pg_attrdef",
        "oid",
        "adrelid",
        "EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) x.adrelid \
         AND a.attnum OPERATOR(pg_catalog.=) x.adnum AND a.attgenerated OPERATOR(pg_catalog.<>) '')",
    ),
];

impl<C: Client> Work<'_, C> {
    /// Refuses to run the query of `view`, which is on home, if that would lend another's login to code of users' own. `query` is its text.
    pub(super) async fn refuse_lending(&mut self, view: &str, query: &str) -> Result<()> {
        if self.lends(view).await? {
            let home = self.home();
            // PostgreSQL locks what the query names, and what its views do. Before that somebody may have made another of one.
            self.describe_on(home, query, &[]).await?;
            self.lends(view).await?;
        }
        Ok(())
    }

    /// Whether the session is another's than the view's owner's. An error if it is, and the query may run code of users' own.
    pub(super) async fn lends(&mut self, view: &str) -> Result<bool> {
        match self.ask_home(&question(view)).await?.pop().as_deref() {
            Some([Some(owner), Some(own), Some(code)]) => match (own.as_str(), code.as_str()) {
                ("t", _) => Ok(false),
                (_, "f") => Ok(true),
                _ => Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    format!(
                        "materialized view {view} over distributed tables can't be filled after SET ROLE or SET SESSION AUTHORIZATION: \
                         its query may run code of users' own"
                    ),
                )
                .hint(&format!("Log in as the owner, {}.", quote_ident(owner)))),
            },
            _ => Err(ExecError::internal("no such view")),
        }
    }
}

/// The owner, whether he is who logged in, and otherwise whether the view's query may run code of users' own. What PostgreSQL came with
/// is not asked for; the function that fills such views is, as it is part of their definition.
fn question(view: &str) -> String {
    let mut hanging = String::new();
    for (catalog, oid, relation, condition) in HANGING {
        let class = if oid == "oid" { catalog } else { "pg_class" };
        let _ = write!(
            hanging,
            " UNION ALL SELECT 'pg_catalog.{class}'::pg_catalog.regclass::pg_catalog.oid, x.{oid} FROM pg_catalog.{catalog} x \
             WHERE r.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid \
             AND x.{relation} OPERATOR(pg_catalog.=) r.object AND {condition}"
        );
    }
    let class =
        |name: &str| format!("r.class OPERATOR(pg_catalog.=) 'pg_catalog.{name}'::pg_catalog.regclass::pg_catalog.oid");
    let calls = |trees: &[(&str, &str)]| {
        let of = |(catalog, tree): &(&str, &str)| {
            let (of, oid) = if *catalog == "pg_index" { ("pg_class", "indexrelid") } else { (*catalog, "oid") };
            format!(
                "{} AND EXISTS (SELECT FROM pg_catalog.{catalog} x WHERE x.{oid} OPERATOR(pg_catalog.=) r.object \
                 AND pg_catalog.concat({tree}) OPERATOR(pg_catalog.~) calls.what)",
                class(of)
            )
        };
        trees.iter().map(of).collect::<Vec<_>>().join(" OR ")
    };
    let names: Vec<String> =
        RUN_TEXT.iter().chain(TAKE_TYPES).chain(&["set_config"]).map(|name| quote_literal(name)).collect();
    format!(
        "WITH RECURSIVE v AS (SELECT c.oid, c.relowner FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) {view}::pg_catalog.regclass), \
         types AS (SELECT t.oid FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.typrelid \
           WHERE t.oid OPERATOR(pg_catalog.>=) {FIRST_NORMAL_OBJECT_ID}::pg_catalog.oid AND (t.typtype OPERATOR(pg_catalog.=) ANY ('{{d,r,m}}') \
             OR t.typtype OPERATOR(pg_catalog.=) 'c' AND (c.relkind OPERATOR(pg_catalog.=) 'c' OR EXISTS (SELECT FROM pg_catalog.pg_attribute a \
               WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.atttypid OPERATOR(pg_catalog.>=) {FIRST_NORMAL_OBJECT_ID}::pg_catalog.oid)))), \
         calls AS (SELECT pg_catalog.concat(':funcid (?:', (SELECT pg_catalog.string_agg(p.oid::pg_catalog.text, '|') \
               FROM pg_catalog.pg_proc p WHERE p.proname OPERATOR(pg_catalog.=) ANY (ARRAY[{names}]::pg_catalog.name[])), \
             ') |:[A-Za-z_]*typ(?:e|id|eid|eId) (?:', (SELECT pg_catalog.string_agg(n.oid::pg_catalog.text, '|') FROM (SELECT oid FROM types \
               UNION ALL SELECT a.oid FROM pg_catalog.pg_type a JOIN types ON a.typelem OPERATOR(pg_catalog.=) types.oid UNION ALL SELECT 4294967295::pg_catalog.oid) n), ') ') AS what), \
         r (class, object) AS (SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, v.oid FROM v \
           UNION SELECT n.class, n.object FROM r CROSS JOIN LATERAL (SELECT d.refclassid AS class, d.refobjid AS object FROM pg_catalog.pg_depend d \
             WHERE d.classid OPERATOR(pg_catalog.=) r.class AND d.objid OPERATOR(pg_catalog.=) r.object{hanging}) n \
           WHERE n.object OPERATOR(pg_catalog.>=) {FIRST_NORMAL_OBJECT_ID}::pg_catalog.oid) \
         SELECT pg_catalog.pg_get_userbyid(v.relowner), \
           v.relowner OPERATOR(pg_catalog.=) (SELECT u.oid FROM pg_catalog.pg_roles u WHERE u.rolname OPERATOR(pg_catalog.=) SESSION_USER) \
           AND v.relowner OPERATOR(pg_catalog.=) (SELECT s.usesysid FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) s), \
           EXISTS (SELECT FROM r, calls WHERE \
             {proc} AND r.object OPERATOR(pg_catalog.<>) ALL (SELECT p.oid FROM pg_catalog.pg_proc p \
               JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace \
               WHERE n.nspname OPERATOR(pg_catalog.=) 'herd' AND p.proname OPERATOR(pg_catalog.=) 'materialized') \
             OR {operator} OR {opclass} OR {opfamily} \
             OR {typ} AND EXISTS (SELECT FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.typrelid \
               WHERE t.oid OPERATOR(pg_catalog.=) r.object \
                 AND (t.typtype OPERATOR(pg_catalog.=) ANY ('{{d,r,m}}') OR c.relkind OPERATOR(pg_catalog.=) 'c')) \
             OR {calls}) FROM v",
        view = quote_literal(view),
        names = names.join(", "),
        proc = class("pg_proc"),
        operator = class("pg_operator"),
        opclass = class("pg_opclass"),
        opfamily = class("pg_opfamily"),
        typ = class("pg_type"),
        calls = calls(&[
            ("pg_rewrite", "x.ev_qual, x.ev_action"),
            ("pg_policy", "x.polqual, x.polwithcheck"),
            ("pg_constraint", "x.conbin"),
            ("pg_attrdef", "x.adbin"),
            ("pg_index", "x.indexprs, x.indpred"),
            ("pg_statistic_ext", "x.stxexprs"),
        ]),
    )
}
