//! How random tests run: the same cases every time, unless told otherwise.

use proptest::test_runner::{Config, RngSeed};

/// `cases` of a fixed seed. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` override them, to search longer or elsewhere.
pub fn config(cases: u32) -> Config {
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(18);
    }
    config.failure_persistence = None;
    // Many texts are no SQL.
    config.max_global_rejects = config.cases * 3;
    config
}
