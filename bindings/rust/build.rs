//! Compiles libmixling with the C compiler of the system (`CC`, or `cc`), and links it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?} failed");
}

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let source = env::var("MIXLING_SOURCE").map_or(own.join("../../src/mixling/native"), PathBuf::from);
    let compiler = env::var("CC").unwrap_or("cc".into());
    let flags = env::var("CFLAGS").unwrap_or("-O3".into());
    let mut objects = Vec::new();
    for entry in fs::read_dir(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display())) {
        let file = entry.expect("an entry of the folder").path();
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !name.ends_with(".c") || name == "python.c" || name == "example.c" {
            continue;
        }
        let object = out.join(format!("{name}.o"));
        run(Command::new(&compiler)
            .args(["-std=gnu11", "-fPIC", "-fno-math-errno", "-fno-trapping-math"])
            .args(flags.split_whitespace())
            .args(["-c", "-o"])
            .args([&object as &Path, &file]));
        objects.push(object);
    }
    let library = out.join("libmixling.a");
    let _ = fs::remove_file(&library);
    run(Command::new(env::var("AR").unwrap_or("ar".into())).arg("crs").arg(&library).args(&objects));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rerun-if-changed={}", source.display());
}
