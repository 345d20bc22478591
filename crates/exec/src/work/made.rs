//! What code that runs on home has made there in the catalog: nobody has read its statements before they ran.
//!
//! PostgreSQL's own count of the rows that this connection has written to system catalogs tells whether there is anything
//! to look for; what it was is told by the rows that are the transaction's own. It does not know what may be made.

use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// Numbers that grow with what is made, for one to be compared with the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Functions, operators, types, schemas and the like: all nodes need them.
    pub everywhere: i64,
    /// Tables, views, triggers, defaults, policies; not temporary ones.
    pub here: i64,
}

/// Counts of earlier transactions may be in it: only the difference within a transaction means anything.
fn written_to(catalogs: &str) -> String {
    format!(
        "(SELECT pg_catalog.sum(pg_catalog.pg_stat_get_xact_tuples_inserted(c) OPERATOR(pg_catalog.+) \
             pg_catalog.pg_stat_get_xact_tuples_updated(c) OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_deleted(c))::pg_catalog.int8 \
         FROM pg_catalog.unnest('{{{catalogs}}}'::pg_catalog.regclass[]::pg_catalog.oid[]) c)"
    )
}

/// What it asks of home, as two columns of [`Made`].
pub fn question() -> String {
    let everywhere = written_to(
        "pg_catalog.pg_proc,pg_catalog.pg_operator,pg_catalog.pg_cast,pg_catalog.pg_collation,pg_catalog.pg_conversion,\
         pg_catalog.pg_enum,pg_catalog.pg_language,pg_catalog.pg_opclass,pg_catalog.pg_opfamily,pg_catalog.pg_extension,\
         pg_catalog.pg_ts_config,pg_catalog.pg_ts_dict",
    );
    // Seen, and yet in progress: the transaction's own, or one of its subtransactions', whose numbers come after its own. Numbers in
    // rows are the last 32 bits; age() would count from wherever it was asked first in the transaction.
    let own = |table: &str| {
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
    };
    let types = format!(
        "CASE WHEN {} OPERATOR(pg_catalog.=) 0 THEN 0 ELSE \
             (SELECT pg_catalog.count(*) FROM pg_catalog.pg_type t WHERE {} \
                 AND t.typnamespace OPERATOR(pg_catalog.<>) pg_catalog.pg_my_temp_schema() \
                 AND (t.typtype OPERATOR(pg_catalog.=) ANY ('{{d,e,r,m}}'::pg_catalog.\"char\"[]) OR EXISTS (SELECT FROM pg_catalog.pg_class c \
                     WHERE c.oid OPERATOR(pg_catalog.=) t.typrelid AND c.relkind OPERATOR(pg_catalog.=) 'c'))) \
             OPERATOR(pg_catalog.+) \
             (SELECT pg_catalog.count(*) FROM pg_catalog.pg_namespace n WHERE {} AND n.nspname OPERATOR(pg_catalog.!~) '^pg_') END",
        written_to("pg_catalog.pg_type,pg_catalog.pg_namespace"),
        own("t"),
        own("n")
    );
    let on = |catalog: &str, table: &str| format!("SELECT x.{table} FROM pg_catalog.{catalog} x WHERE {}", own("x"));
    let here = format!(
        "CASE WHEN {} OPERATOR(pg_catalog.=) 0 THEN 0 ELSE (SELECT pg_catalog.count(*) FROM ({}) m (made) \
             JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) m.made \
             WHERE c.relpersistence OPERATOR(pg_catalog.<>) 't') END",
        written_to(
            "pg_catalog.pg_class,pg_catalog.pg_trigger,pg_catalog.pg_rewrite,pg_catalog.pg_attrdef,pg_catalog.pg_policy"
        ),
        [
            on("pg_class", "oid"),
            on("pg_trigger", "tgrelid"),
            on("pg_rewrite", "ev_class"),
            on("pg_attrdef", "adrelid"),
            on("pg_policy", "polrelid"),
        ]
        .join(" UNION ALL ")
    );
    format!("{everywhere} OPERATOR(pg_catalog.+) {types}, {here}")
}

impl Made {
    pub fn of(columns: &[Option<String>]) -> Made {
        let number = |i: usize| columns.get(i).and_then(|c| c.as_deref()?.parse().ok()).unwrap_or(0);
        Made { everywhere: number(0), here: number(1) }
    }
}

impl<C: Client> Work<'_, C> {
    /// Code has changed the catalog: refused if other nodes were to have it; otherwise all routers hear of it at the commit.
    pub async fn made_on_home(&mut self, before: Made, after: Made) -> Result<bool> {
        if before == after {
            return Ok(false);
        }
        if before.everywhere != after.everywhere && self.epoch.snapshot.nodes.len() > 1 {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "code that runs on home has made or changed a function, operator, type or schema: other nodes would not have it",
            )
            .hint("Send that statement through the router by itself: it reaches all nodes."));
        }
        let home = self.home();
        let mut p = self.lane(home).await?;
        p.wrote = true;
        self.put_back(p).await;
        self.raises_epoch();
        Ok(true)
    }
}
