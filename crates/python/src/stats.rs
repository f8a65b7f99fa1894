//! An engine's figures, as a dict.

use headgate_core::verdict::Path;
use headgate_node::Engine;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub fn stats<'py>(py: Python<'py>, engine: &Engine) -> PyResult<Bound<'py, PyDict>> {
    let stats = PyDict::new(py);
    let occupancy = py.detach(|| engine.occupancy());
    stats.set_item("keys", occupancy.keys)?;
    stats.set_item("cells", occupancy.cells)?;
    stats.set_item("rules", engine.rules().rule_count())?;
    let (mut allowed, mut refused) = (0, 0);
    for path in Path::ALL {
        let (yes, no) = (engine.counters.by_path(path, true), engine.counters.by_path(path, false));
        stats.set_item(format!("path_{}", path.name()), yes + no)?;
        allowed += yes;
        refused += no;
    }
    stats.set_item("allowed", allowed)?;
    stats.set_item("refused", refused)?;
    Ok(stats)
}
