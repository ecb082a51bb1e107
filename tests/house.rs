//! The rules of the house: which way the arrows point, and what no source holds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

/// What stands before a file's unit tests.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap()
}

#[test]
fn packages_depend_downwards_only() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ours = ["recount", "recount-projections", "recount-core"];
    let mut seen = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let height =
            ours.iter().position(|it| *it == name).unwrap_or_else(|| panic!("{name} is new"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let on = dependency["name"].as_str().unwrap();
            if let Some(depth) = ours.iter().position(|it| *it == on) {
                assert!(depth > height, "{name} depends on {on}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, ours.len());
}

#[test]
fn the_domain_is_pure() {
    let outside = [
        "std::fs",
        "std::io",
        "std::net",
        "std::env",
        "std::thread",
        "std::time",
        "tokio",
        "futures",
        "crate::log",
        "crate::service",
    ];
    let beside = ["core/src/log", "core/src/service"].map(|folder| root().join(folder));
    for (path, text) in sources("core/src") {
        if beside.iter().any(|folder| path.starts_with(folder)) || path.ends_with("lib.rs") {
            continue;
        }
        for word in outside {
            // To name the error that a host was given is not to do I/O.
            let is_there = shipped(&text)
                .replace("std::io::Error", "")
                .lines()
                .any(|line| !line.trim_start().starts_with("//") && line.contains(word));
            assert!(!is_there, "{} uses {word}", path.display());
        }
    }
}

#[test]
fn libraries_do_not_print_exit_or_give_up() {
    let words = [
        "println!",
        "print!(",
        "dbg!",
        "todo!",
        "unimplemented!",
        "panic!(",
        "process::exit",
        ".unwrap()",
        "SystemTime",
        "Instant::now",
    ];
    for folder in ["core/src", "projections/src", "replay-cli"] {
        for (path, text) in sources(folder) {
            let is_test = path
                .components()
                .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
            if is_test || path.starts_with(root().join("core/src/log/conformance")) {
                continue;
            }
            // The one place that reads a clock, for hosts that choose it.
            let is_clock = path.ends_with("embed/clock.rs");
            for line in shipped(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
                let found = words
                    .iter()
                    .filter(|word| !(is_clock && **word == "SystemTime"))
                    .find(|word| line.contains(**word) && !line.contains("anstream::eprintln!"));
                assert!(found.is_none(), "{}: {line}", path.display());
            }
        }
    }
}

#[test]
fn no_file_is_too_long() {
    for folder in ["core/src", "projections/src", "replay-cli", "tests", "benches"] {
        for (path, text) in sources(folder) {
            let lines = text.lines().count();
            assert!(lines <= 800, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn every_test_file_is_listed_and_none_is_switched_off() {
    for (path, _) in sources("tests") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let folder = path.parent().unwrap();
        let lists = match folder.file_name().unwrap().to_str().unwrap() {
            "tests" => folder.join("main.rs"),
            _ if folder.join("mod.rs").exists() => folder.join("mod.rs"),
            _ => folder.with_extension("rs"),
        };
        if !matches!(name, "main" | "mod") {
            let list = fs::read_to_string(&lists).unwrap();
            let is_listed = list.contains(&format!("mod {name};"));
            assert!(is_listed, "{} does not run", path.display());
        }
    }
    for folder in ["core/src", "projections/src", "replay-cli", "tests"] {
        for (path, text) in sources(folder) {
            for (word, end) in [("#[igno", "re"), ("should_pa", "nic")] {
                assert!(!text.contains(&format!("{word}{end}")), "{}", path.display());
            }
        }
    }
}
