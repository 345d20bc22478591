//! Views over a table, and over those: what they are made of, and how one is made anew, or made on another node.
//!
//! A table that becomes another one under its name takes the views that name it along: each reads nothing meanwhile, and then gets its own query
//! once more (`CREATE OR REPLACE`), which names the new table. So it keeps its object id, owner, rights, comments, defaults and triggers, and all that is made over
//! it. Which views every node is to have is not known here.

use super::finish::comment;
use super::{Definition, read_definition};
use crate::load::{cells, pin_settings, restore_settings};
use crate::printed::readable;
use crate::{CatalogError, Oid, Query, qualified, quote_ident, quote_literal};

/// A view, or one over it, of a table.
#[derive(Clone, Debug)]
pub struct ViewOver {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    pub owner: String,
    /// `pg_get_viewdef`.
    pub query: String,
    /// What has its columns, and reads no table.
    pub parked: String,
    /// As inside `WITH (…)`.
    pub options: Vec<String>,
    /// It names the table itself.
    pub direct: bool,
    /// `query` is another than it has, which it is to get.
    pub changed: bool,
    /// Rules but its query.
    pub rules: Vec<String>,
    /// What depends on it, but for other views.
    pub dependents: Vec<String>,
}

impl ViewOver {
    /// Its name with its schema, quoted where needed.
    pub fn qualified(&self) -> String {
        qualified(&self.schema, &self.name)
    }

    /// Makes it, or gives it its query once more.
    fn make(&self) -> String {
        let options = match self.options.is_empty() {
            true => String::new(),
            false => format!("WITH ({}) ", self.options.join(", ")),
        };
        self.made_of(&format!("{options}AS {}", self.query.trim_end_matches(';')))
    }

    /// As its owner: constants in it are read as types that may run code of his.
    fn made_of(&self, definition: &str) -> String {
        format!(
            "SELECT herd.make_view({}, {}, {}, {})",
            quote_literal(&self.owner),
            quote_literal(&self.schema),
            quote_literal(&self.name),
            quote_literal(definition)
        )
    }
}

/// The views over tables, and over those, each behind those that it reads. With those over a table's partitions.
pub async fn read_views<Q: Query>(q: &mut Q, tables: &[Oid]) -> Result<Vec<ViewOver>, CatalogError<Q::Error>> {
    let before = pin_settings(q).await?;
    let views = read(q, tables).await;
    let restored = restore_settings(q, before).await;
    let views = views?;
    restored?;
    Ok(views)
}

/// What makes a view on a node that has none of the name: `view`, and the rest of it as home has it.
pub async fn read_view_elsewhere<Q: Query>(q: &mut Q, view: &ViewOver) -> Result<Vec<String>, CatalogError<Q::Error>> {
    Ok(read_definition(q, &view.schema, &view.name).await?.make_view(view))
}

pub(super) async fn read<Q: Query>(q: &mut Q, tables: &[Oid]) -> Result<Vec<ViewOver>, CatalogError<Q::Error>> {
    let tables = tables.iter().map(Oid::to_string).collect::<Vec<_>>().join(",");
    // Views that name each other in a circle can be made, and not be read.
    let sql = format!(
        "WITH RECURSIVE roots (oid) AS (SELECT unnest('{{{tables}}}'::oid[]) UNION SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY ('{{{tables}}}'::oid[])), \
         reads (oid, of) AS (SELECT r.ev_class, d.refobjid FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND r.rulename = '_RETURN' \
                              JOIN pg_class c ON c.oid = r.ev_class AND c.relkind = 'v' \
                             WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> r.ev_class), \
         over (oid, depth) AS (SELECT s.oid, 1 FROM reads s JOIN roots t ON t.oid = s.of \
                               UNION SELECT s.oid, o.depth + 1 FROM over o JOIN reads s ON s.of = o.oid WHERE o.depth < 100) \
         SELECT c.oid, n.nspname, c.relname, pg_get_userbyid(c.relowner), pg_get_viewdef(c.oid), \
                (SELECT string_agg(concat_ws(' ', 'NULL::' || format_type(a.atttypid, a.atttypmod), \
                        'COLLATE ' || (SELECT format('%I.%I', cn.nspname, co.collname) FROM pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace \
                                        WHERE co.oid = a.attcollation AND a.attcollation <> t.typcollation), format('AS %I', a.attname)), ', ' ORDER BY a.attnum) \
                   FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0), c.reloptions, \
                EXISTS (SELECT FROM reads s WHERE s.oid = c.oid AND s.of = ANY ('{{{tables}}}'::oid[])), \
                ARRAY(SELECT r.rulename FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN' ORDER BY 1), \
                ARRAY(SELECT DISTINCT coalesce(pg_describe_object('pg_class'::regclass, v.ev_class, 0), pg_describe_object(d.classid, d.objid, 0)) \
                        FROM pg_depend d LEFT JOIN pg_rewrite v ON d.classid = 'pg_rewrite'::regclass AND v.oid = d.objid AND v.rulename = '_RETURN' \
                        LEFT JOIN pg_class vc ON vc.oid = v.ev_class \
                       WHERE d.deptype = 'n' AND d.classid <> 'pg_attrdef'::regclass \
                         AND (d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND vc.relkind IS DISTINCT FROM 'v' \
                              OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (SELECT t.oid FROM pg_type t WHERE t.oid = c.reltype OR t.typelem = c.reltype)) \
                         AND NOT (d.classid = 'pg_rewrite'::regclass AND EXISTS (SELECT FROM pg_rewrite r WHERE r.oid = d.objid AND r.ev_class = c.oid)) \
                         AND NOT (d.classid = 'pg_trigger'::regclass AND EXISTS (SELECT FROM pg_trigger t WHERE t.oid = d.objid AND t.tgrelid = c.oid)) ORDER BY 1) \
           FROM (SELECT oid, max(depth) AS depth FROM over GROUP BY oid) o JOIN pg_class c ON c.oid = o.oid JOIN pg_namespace n ON n.oid = c.relnamespace \
          ORDER BY o.depth, c.oid"
    );
    let mut views = Vec::new();
    for mut row in cells(q, &sql).await? {
        views.push(ViewOver {
            oid: row.number()?,
            schema: row.text(),
            name: row.text(),
            owner: row.text(),
            query: readable(row.text()),
            parked: row.text(),
            options: row.texts(),
            direct: row.boolean(),
            changed: false,
            rules: row.texts(),
            dependents: row.texts(),
        });
    }
    Ok(views)
}

impl Definition {
    /// Has the views that name the table read nothing, so that none hangs on it, or on its primary key, while it goes.
    pub(crate) fn park_views(&self) -> Vec<String> {
        let direct = self.views.iter().filter(|v| v.direct);
        direct.map(|v| v.made_of(&format!("AS SELECT {}", v.parked))).collect()
    }

    /// Gives them their queries once more, which name the table's successor then.
    pub(crate) fn take_views_along(&self) -> Vec<String> {
        self.views.iter().filter(|v| v.direct || v.changed).map(ViewOver::make).collect()
    }

    /// Drops the views over it, where they are.
    pub(crate) fn drop_views(&self) -> Option<String> {
        let names: Vec<String> = self.views.iter().map(|v| quote_literal(&v.qualified())).collect();
        (!names.is_empty()).then(|| format!("SELECT herd.drop_views(ARRAY[{}])", names.join(", ")))
    }

    /// Makes the view that this is of, with all that belongs to it, where there is none of its name.
    fn make_view(&self, view: &ViewOver) -> Vec<String> {
        let (name, schema) = (self.qualified(), quote_ident(&self.schema));
        let mut statements = vec![
            format!("CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {}", quote_ident(&self.schema_owner)),
            view.make(),
        ];
        comment(&mut statements, "VIEW", &name, &self.comment);
        for column in &self.columns {
            let called = quote_ident(&column.name);
            if let Some(default) = &column.expression {
                let set = format!("ALTER VIEW {name} ALTER COLUMN {called} SET DEFAULT {default}");
                statements.push(self.runs_owners_code("herd.run_as_owner", set));
            }
            comment(&mut statements, "COLUMN", &format!("{name}.{called}"), &column.comment);
        }
        self.finish_triggers(&mut statements);
        self.finish_privileges(&mut statements);
        statements
    }
}
