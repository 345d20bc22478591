//! What runs without being named: operators' functions, casts, ranges, the constraints and defaults of domains; and which types
//! are made of which. Each is searched like a body of code. It does not know what is looked for.

use super::Source;
use crate::load::cells;
use crate::{CatalogError, Query, Snapshot};
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

pub(super) async fn load<Q: Query>(
    q: &mut Q,
    snapshot: &Snapshot,
    all: &mut Vec<Source>,
) -> Result<(), CatalogError<Q::Error>> {
    // An array's cast is its elements', as columns are told by those. What casts one type of PostgreSQL's own to another has no name.
    let sql = format!(
        "SELECT n.nspname, o.oprname, concat_ws(' ', o.oprcode, o.oprrest, o.oprjoin), true, o.oprowner \
           FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace WHERE o.oid >= {FIRST_NORMAL_OBJECT_ID} \
         UNION ALL SELECT n.nspname, t.typname, c.castfunc::regproc::text, false, 0::oid \
           FROM pg_cast c LEFT JOIN pg_type t ON t.oid >= {FIRST_NORMAL_OBJECT_ID} AND (t.oid IN (c.castsource, c.casttarget) OR t.typarray IN (c.castsource, c.casttarget)) \
           LEFT JOIN pg_namespace n ON n.oid = t.typnamespace WHERE c.oid >= {FIRST_NORMAL_OBJECT_ID} AND c.castfunc <> 0 \
         UNION ALL SELECT n.nspname, t.typname, concat_ws(' ', format_type(r.rngsubtype, NULL), r.rngcanonical, r.rngsubdiff), false, t.typowner \
           FROM pg_range r JOIN pg_type t ON t.oid IN (r.rngtypid, r.rngmultitypid) JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid >= {FIRST_NORMAL_OBJECT_ID} \
         UNION ALL SELECT n.nspname, t.typname, concat_ws(' ', format_type(t.typbasetype, NULL), CASE WHEN t.typdefaultbin IS NOT NULL THEN herd.code_in(t.typdefaultbin::text) END, \
             (SELECT string_agg(herd.code_in(k.conbin::text), ' ') FROM pg_constraint k WHERE k.contypid = t.oid)), false, t.typowner \
           FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype = 'd' AND t.oid >= {FIRST_NORMAL_OBJECT_ID} \
         UNION ALL SELECT n.nspname, t.typname, concat_ws(' ', t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout, t.typanalyze), false, t.typowner \
           FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype = 'b' AND t.typcategory <> 'A' AND t.oid >= {FIRST_NORMAL_OBJECT_ID}"
    );
    for mut row in cells(q, &sql).await? {
        let source = Source::of(row.text(), row.text(), &row.text()).await;
        all.push(Source { operator: row.boolean(), by_type: true, owner: row.number()?, ..source });
    }
    for t in snapshot.types.values() {
        let parts = t.fields.iter().chain([&t.base]).filter_map(|oid| snapshot.types.get(oid));
        let text = parts.map(|p| format!("{}.{}", p.schema, p.name)).collect::<Vec<_>>().join(" ");
        if !text.is_empty() {
            all.push(Source { by_type: true, ..Source::of(t.schema.clone(), t.name.clone(), &text).await });
        }
    }
    Ok(())
}
