//! `herd.json`: what a dump holds. It is written last, so a folder without it is not a whole dump.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

const FILE: &str = "herd.json";
/// The newest that is known. A dump is of the first version that can restore what it holds.
const VERSION: u32 = 2;
/// Of dumps with tables that are partitioned by their owners.
const PARTITIONED: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    pub pgherd: String,
    /// Folders of `data` in pg_dump's directory format, to be restored in this order.
    pub archives: Vec<Archive>,
    pub tables: Vec<Table>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Archive {
    pub folder: String,
    /// Bytes on the node, as far as known, by the name pg_restore calls them: `herd_shards.events_0`.
    pub tables: Vec<(String, u64)>,
}

/// A distributed or reference table. All others are restored as they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    pub schema: String,
    pub name: String,
    /// `d`: distributed, `r`: reference.
    pub kind: String,
    /// Tables of one group share key types, bounds and placement.
    pub colocation: Option<i32>,
    /// No table joins the group unless it names one of its tables.
    #[serde(default)]
    pub private: bool,
    pub strategy: Option<String>,
    #[serde(default)]
    pub key: Vec<String>,
    pub shard_count: Option<i32>,
    /// Of range and list: what follows FOR VALUES, or DEFAULT.
    #[serde(default)]
    pub bounds: Vec<String>,
    /// Its owner has partitioned it; its partitions are distributed tables of their own.
    #[serde(default)]
    pub partitioned: bool,
}

impl Manifest {
    /// Of a dump that this version of pgherd makes.
    pub fn new(archives: Vec<Archive>, tables: Vec<Table>) -> Manifest {
        let version = if tables.iter().any(|t| t.partitioned) { PARTITIONED } else { 1 };
        Manifest { version, pgherd: env!("CARGO_PKG_VERSION").to_owned(), archives, tables }
    }

    /// Writes it into the dump's folder, over one that is there.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let text = serde_json::to_string_pretty(self).unwrap_or_else(|e| unreachable!("plain data: {e}"));
        fs::write(&path, text).map_err(|source| Error::Io { action: "write", path, source })
    }

    /// Of the dump in a folder; `Err`: there is none, or it is of a newer version.
    pub fn load(dir: &Path) -> Result<Manifest> {
        let wrong = |problem: String| Error::NoDump { path: dir.to_owned(), problem };
        let text = fs::read_to_string(dir.join(FILE)).map_err(|e| wrong(format!("{FILE}: {e}")))?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(|e| wrong(format!("{FILE}: {e}")))?;
        if manifest.version > VERSION {
            return Err(wrong(format!("it was made by pgherd {}, which is newer than this one", manifest.pgherd)));
        }
        Ok(manifest)
    }
}
