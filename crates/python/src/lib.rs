//! The Python binding: conversion and errors only. Its contract is `src/headgate/_core.pyi`.

mod clock;
mod decision;
mod engine;
mod errors;
mod explain;
mod facts;
mod functions;
mod identity;
mod mailbox;
mod quotas;
mod server;
mod store;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<clock::FakeClock>()?;
    module.add_class::<decision::Decision>()?;
    module.add_class::<decision::LimitResult>()?;
    module.add_class::<engine::PyEngine>()?;
    module.add_class::<identity::ApiKeys>()?;
    module.add_class::<identity::Identity>()?;
    module.add_class::<identity::Tokens>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<mailbox::Mailbox>()?;
    module.add("RulesError", module.py().get_type::<errors::RulesError>())?;
    module.add_function(wrap_pyfunction!(functions::validate_rules, module)?)?;
    module.add_function(wrap_pyfunction!(functions::check_limit_arguments, module)?)?;
    module.add_function(wrap_pyfunction!(functions::parse_limit, module)?)?;
    module.add_function(wrap_pyfunction!(functions::normalise_path, module)?)?;
    Ok(())
}
