//! The Python binding: conversion and errors only. Its contract is `src/headgate/_core.pyi`.

mod answers;
mod clock;
mod decision;
mod engine;
mod errors;
mod explain;
mod facts;
mod feed;
mod functions;
mod identity;
mod mailbox;
mod policies;
mod quotas;
mod server;
mod stats;
mod store;
mod web;
mod web_asking;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<answers::Answers>()?;
    module.add_class::<answers::AsgiSender>()?;
    module.add_class::<clock::FakeClock>()?;
    module.add_class::<decision::Decision>()?;
    module.add_class::<decision::LimitResult>()?;
    module.add_class::<engine::PyEngine>()?;
    module.add_class::<feed::Applied>()?;
    module.add_class::<identity::ApiKeys>()?;
    module.add_class::<identity::Identity>()?;
    module.add_class::<identity::Tokens>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<mailbox::Mailbox>()?;
    module.add("RulesError", module.py().get_type::<errors::RulesError>())?;
    module.add_function(wrap_pyfunction!(functions::validate_rules, module)?)?;
    module.add_function(wrap_pyfunction!(functions::check_entry, module)?)?;
    module.add_function(wrap_pyfunction!(functions::check_limit_arguments, module)?)?;
    module.add_function(wrap_pyfunction!(functions::parse_limit, module)?)?;
    module.add_function(wrap_pyfunction!(functions::normalise_path, module)?)?;
    module.add_function(wrap_pyfunction!(functions::check_upstreams, module)?)?;
    module.add_function(wrap_pyfunction!(answers::binding_position, module)?)?;
    module.add_function(wrap_pyfunction!(web::identify_asgi, module)?)?;
    module.add_function(wrap_pyfunction!(web::identify_wsgi, module)?)?;
    module.add_function(wrap_pyfunction!(web_asking::check_identified, module)?)?;
    module.add_function(wrap_pyfunction!(web_asking::ask_asgi, module)?)?;
    module.add_function(wrap_pyfunction!(web_asking::ask_asgi_for, module)?)?;
    module.add_function(wrap_pyfunction!(web::counted_ip, module)?)?;
    Ok(())
}
