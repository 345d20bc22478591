//! What code that runs on home has made or changed there in the catalog: nobody has read its statements before they ran, or
//! could say which of them would.
//!
//! PostgreSQL's own count of the rows that this connection has written to system catalogs tells whether there is anything
//! to look for; what it was is told by the rows that are the transaction's own, and by locks of what is gone. It does not know
//! what may be made.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Oid, RelationKind, UserType};
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// What the transaction has changed so far: to be compared with what it was before the code ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Functions, operators, types, schemas, roles and the like, as numbers: all nodes need them.
    everywhere: String,
    /// Relations of which a row of the catalog is the transaction's own, and which rows: their own (`c`) and those of what
    /// hangs on them (`x`); not temporary ones.
    relations: BTreeMap<(char, Oid), String>,
    /// Relations (`r`) and types (`t`) it has dropped.
    gone: BTreeSet<(char, Oid)>,
}

/// Catalogs of what every node has, whose rows nothing of the session's own is among.
const SHARED: &str = "pg_catalog.pg_proc,pg_catalog.pg_aggregate,pg_catalog.pg_operator,pg_catalog.pg_cast,pg_catalog.pg_collation,\
    pg_catalog.pg_conversion,pg_catalog.pg_enum,pg_catalog.pg_range,pg_catalog.pg_language,pg_catalog.pg_transform,pg_catalog.pg_am,\
    pg_catalog.pg_opclass,pg_catalog.pg_opfamily,pg_catalog.pg_amop,pg_catalog.pg_amproc,pg_catalog.pg_extension,\
    pg_catalog.pg_ts_config,pg_catalog.pg_ts_config_map,pg_catalog.pg_ts_dict,pg_catalog.pg_ts_parser,pg_catalog.pg_ts_template,\
    pg_catalog.pg_default_acl,pg_catalog.pg_parameter_acl,pg_catalog.pg_authid,pg_catalog.pg_auth_members,\
    pg_catalog.pg_db_role_setting,pg_catalog.pg_database,pg_catalog.pg_shdescription,pg_catalog.pg_shseclabel";
const INSERTED: &str = "pg_stat_get_xact_tuples_inserted";
const UPDATED: &str = "pg_stat_get_xact_tuples_updated";
const DELETED: &str = "pg_stat_get_xact_tuples_deleted";

/// Counts of earlier transactions may be in it: only the difference within a transaction means anything.
fn written_to(catalogs: &str, counts: &[&str]) -> String {
    let counts: Vec<String> = counts.iter().map(|count| format!("pg_catalog.{count}(c)")).collect();
    format!(
        "(SELECT pg_catalog.sum({})::pg_catalog.int8 FROM pg_catalog.unnest('{{{catalogs}}}'::pg_catalog.regclass[]::pg_catalog.oid[]) c)",
        counts.join(" OPERATOR(pg_catalog.+) ")
    )
}

/// Seen, and yet in progress: the transaction's own row, or one of its subtransactions', whose numbers come after its own. Numbers in
/// rows are the last 32 bits; age() would count from wherever it was asked first in the transaction.
fn own(table: &str) -> String {
    let after = format!(
        "(({table}.xmin::pg_catalog.text::pg_catalog.int8 OPERATOR(pg_catalog.-) \
           pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text::pg_catalog.int8) OPERATOR(pg_catalog.&) '4294967295'::pg_catalog.int8)"
    );
    format!(
        "CASE WHEN {after} OPERATOR(pg_catalog.<) 1000000 \
         THEN pg_catalog.pg_xact_status((pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text::pg_catalog.int8 \
             OPERATOR(pg_catalog.+) {after})::pg_catalog.text::pg_catalog.xid8) OPERATOR(pg_catalog.=) 'in progress' \
         ELSE false END"
    )
}

/// Which rows of a catalog are the transaction's own, if it has written there at all.
fn own_rows(catalog: &str, which: &str) -> String {
    format!(
        "CASE WHEN {} OPERATOR(pg_catalog.=) 0 THEN NULL ELSE (SELECT pg_catalog.md5(pg_catalog.string_agg(x.ctid::pg_catalog.text, ',')) \
         FROM pg_catalog.{catalog} x WHERE {} AND {which}) END",
        written_to(&format!("pg_catalog.{catalog}"), &[INSERTED, UPDATED, DELETED]),
        own("x")
    )
}

fn everywhere() -> String {
    // PostgreSQL makes a schema for a session's temporary tables.
    let schemas = own_rows("pg_namespace", "x.nspname OPERATOR(pg_catalog.!~) '^pg_'");
    // Tables have row types, which go with them.
    let types = own_rows(
        "pg_type",
        "x.typnamespace OPERATOR(pg_catalog.<>) pg_catalog.pg_my_temp_schema() \
         AND (x.typtype OPERATOR(pg_catalog.=) ANY ('{d,e,r,m}'::pg_catalog.\"char\"[]) OR EXISTS (SELECT FROM pg_catalog.pg_class c \
             WHERE c.oid OPERATOR(pg_catalog.=) x.typrelid AND c.relkind OPERATOR(pg_catalog.=) 'c'))",
    );
    let comments = own_rows(
        "pg_description",
        "x.classoid OPERATOR(pg_catalog.<>) ALL ('{pg_catalog.pg_class,pg_catalog.pg_constraint,pg_catalog.pg_trigger,pg_catalog.pg_policy,\
             pg_catalog.pg_rewrite,pg_catalog.pg_statistic_ext}'::pg_catalog.regclass[]::pg_catalog.oid[])",
    );
    // Of distributed tables they follow by themselves.
    let rights = "(SELECT pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat_ws(',', c.oid, c.relowner, c.relacl, \
             (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(',', a.attnum, a.attacl), ',' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a \
               WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attacl IS NOT NULL)), ' ' ORDER BY c.oid)) \
         FROM herd.relation r JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) r.oid WHERE r.kind OPERATOR(pg_catalog.=) 'r')";
    format!(
        "pg_catalog.concat_ws(' ', {}, {}, {schemas}, {types}, {comments}, {rights})",
        written_to(SHARED, &[INSERTED, UPDATED, DELETED]),
        written_to("pg_catalog.pg_namespace", &[UPDATED, DELETED]),
    )
}

fn relations() -> String {
    let on = |catalog: &str, table: &str, which: &str| {
        format!(
            "SELECT 'x', x.{table}, pg_catalog.concat('{catalog}', x.ctid) FROM pg_catalog.{catalog} x WHERE {} AND {which}",
            own("x")
        )
    };
    let rows = [
        format!(
            "SELECT CASE WHEN i.indrelid IS NULL THEN 'c' ELSE 'x' END, coalesce(i.indrelid, x.oid), pg_catalog.concat('pg_class', x.ctid) \
             FROM pg_catalog.pg_class x LEFT JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) x.oid WHERE {}",
            own("x")
        ),
        // Keys that point to a table have triggers there.
        on("pg_trigger", "tgrelid", "(NOT x.tgisinternal OR x.tgenabled OPERATOR(pg_catalog.<>) 'O')"),
        on("pg_rewrite", "ev_class", "true"),
        on("pg_attrdef", "adrelid", "true"),
        on("pg_policy", "polrelid", "true"),
        on(
            "pg_attribute",
            "attrelid",
            "x.attrelid OPERATOR(pg_catalog.=) ANY (SELECT v.ev_class FROM pg_catalog.pg_rewrite v \
             WHERE v.ev_class OPERATOR(pg_catalog.>=) 16384 AND v.rulename OPERATOR(pg_catalog.=) '_RETURN')",
        ),
    ];
    format!(
        "CASE WHEN {} OPERATOR(pg_catalog.=) 0 THEN '' ELSE \
         (SELECT pg_catalog.string_agg(pg_catalog.concat(g.k, g.made, ':', g.at), ' ') FROM \
             (SELECT m.k, m.made, pg_catalog.md5(pg_catalog.string_agg(m.at, ',' ORDER BY m.at)) FROM ({}) m (k, made, at) \
                JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) m.made \
               WHERE c.relpersistence OPERATOR(pg_catalog.<>) 't' GROUP BY 1, 2) g (k, made, at)) END",
        written_to(
            "pg_catalog.pg_class,pg_catalog.pg_attribute,pg_catalog.pg_trigger,pg_catalog.pg_rewrite,pg_catalog.pg_attrdef,pg_catalog.pg_policy",
            &[INSERTED, UPDATED, DELETED]
        ),
        rows.join(" UNION ALL ")
    )
}

/// Who drops something holds its lock to the end.
const GONE: &str = "(SELECT pg_catalog.string_agg(pg_catalog.concat(CASE l.locktype WHEN 'object' THEN 't' ELSE 'r' END, \
         coalesce(l.relation, l.objid)), ' ') FROM pg_catalog.pg_locks l \
     WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND l.mode OPERATOR(pg_catalog.=) 'AccessExclusiveLock' \
       AND (l.locktype OPERATOR(pg_catalog.=) 'relation' \
               AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) l.relation) \
            OR l.locktype OPERATOR(pg_catalog.=) 'object' AND l.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass \
               AND NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) l.objid)))";

/// What it asks of home, as three columns of [`Made`].
pub fn question() -> String {
    format!("{}, {}, {GONE}", everywhere(), relations())
}

impl Made {
    pub const COLUMNS: usize = 3;

    /// From what home answered to [`question`]; a column that is missing counts as empty.
    pub fn of(columns: &[Option<String>]) -> Made {
        let text = |i: usize| columns.get(i).and_then(|c| c.as_deref()).unwrap_or_default();
        let object = |word: &str| Some((word.chars().next()?, word.get(1..)?.parse().ok()?));
        let rows = |word: &str| word.split_once(':').and_then(|(o, rows)| Some((object(o)?, rows.to_string())));
        Made {
            everywhere: text(0).to_string(),
            relations: text(1).split(' ').filter_map(rows).collect(),
            gone: text(2).split(' ').filter_map(object).collect(),
        }
    }

    /// Objects that are not as they were `before`, and of relations whether only their own row is not.
    fn changed<'m>(&'m self, before: &'m Made) -> impl Iterator<Item = (char, Oid)> + 'm {
        let relations =
            self.relations.iter().filter(|(o, rows)| before.relations.get(o) != Some(rows)).map(|(o, _)| *o);
        relations.chain(self.gone.difference(&before.gone).copied())
    }
}

impl<C: Client> Work<'_, C> {
    /// Code has changed the catalog: refused if other nodes have what it changed, or were to have it; otherwise all routers hear
    /// of it at the commit.
    pub async fn made_on_home(&mut self, before: &Made, after: &Made) -> Result<bool> {
        if self.epoch.snapshot.nodes.len() > 1 {
            self.refuse_made(before, after)?;
        }
        // What was temporary, and is gone, nobody knows.
        let known = |(kind, oid): (char, Oid)| kind == 'c' || kind == 'x' || self.relation(oid).is_some();
        if before.everywhere == after.everywhere && !after.changed(before).any(known) {
            return Ok(false);
        }
        let home = self.home();
        let mut p = self.lane(home).await?;
        p.wrote = true;
        self.put_back(p).await;
        self.raises_epoch();
        Ok(true)
    }

    fn refuse_made(&self, before: &Made, after: &Made) -> Result<()> {
        let snapshot = &self.epoch.snapshot;
        // Row types and arrays go with what they are of.
        let is_its_own =
            |t: &UserType| t.kind != b'a' && !snapshot.relations.contains_key(&(t.schema.clone(), t.name.clone()));
        let type_gone = |(kind, oid): (char, Oid)| kind == 't' && snapshot.types.get(&oid).is_some_and(is_its_own);
        if before.everywhere != after.everywhere || after.changed(before).any(type_gone) {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "code that runs on home has made or changed a function, operator, type, schema, role or right: other nodes would not have it",
            )
            .hint(BY_ITSELF));
        }
        for (kind, oid) in after.changed(before).filter(|(kind, _)| *kind != 't') {
            let Some(relation) = self.relation(oid) else { continue };
            let is_view = relation.kind == RelationKind::View;
            // A table's own row changes with its rights, which follow, and with keys of others that point to it.
            if (kind != 'c' || is_view) && plan::ddl::is_on_nodes(relation, snapshot) {
                return Err(changed_here(&relation.name));
            }
        }
        Ok(())
    }

    fn relation(&self, oid: Oid) -> Option<&catalog::Relation> {
        self.epoch.snapshot.relations.values().find(|r| r.oid == oid).map(|r| &**r)
    }

    /// `after` the code: a view that it has made and that other nodes would need.
    pub fn refuse_views(&self, after: &Made) -> Result<()> {
        let made = after.relations.keys().filter_map(|(_, oid)| self.relation(*oid));
        let mut views = made.filter(|r| r.kind == RelationKind::View && self.epoch.snapshot.nodes.len() > 1);
        match views.find(|r| plan::ddl::is_on_nodes(r, &self.epoch.snapshot)) {
            Some(view) => Err(changed_here(&view.name)),
            None => Ok(()),
        }
    }
}

const BY_ITSELF: &str = "Send that statement through the router by itself: it reaches all nodes.";

fn changed_here(relation: &str) -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("code that runs on home has made, changed or dropped \"{relation}\": other nodes would not follow"),
    )
    .hint(BY_ITSELF)
}
