"""The tools in tools/ catch what they are there to catch, and let the rest pass."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class Checkers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("tools/long_files.txt", "# reasons\n")
        for folder in ("benchmarks", "cmake", "docs", "examples", "ops", "tests", "tools"):
            self.write(f"{folder}/README.md", f"# {folder}\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, name, *arguments):
        done = subprocess.run([sys.executable, TOOLS / name, *arguments, self.root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def expect_caught(self, tool, *fragments):
        code, output = self.run_tool(tool)
        self.assertEqual(code, 1, output)
        for fragment in fragments:
            self.assertIn(fragment, output)

    def expect_clean(self, tool):
        code, output = self.run_tool(tool)
        self.assertEqual(code, 0, output)


class Help(unittest.TestCase):
    """Programs say what they are for, and do nothing else, when they are asked."""

    def test_every_program(self):
        root = TOOLS.parent
        programs = [*root.glob("benchmarks/*/run"), root / "benchmarks/run", root / "benchmarks/figures",
                    *(path for path in TOOLS.glob("*") if path.is_file() and os.access(path, os.X_OK)), TOOLS / "site/build",
                    root / "tests/fuzz/run", root / "tests/opgen/seeded_bugs/run"]
        self.assertGreater(len(programs), 25)
        for program in sorted(programs):
            with self.subTest(program=program.relative_to(root)), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([program, "--help"], capture_output=True, text=True, cwd=folder, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                self.assertRegex(done.stdout, r"(?i)usage:|^\w+ ")
                self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


class SeededBugs(unittest.TestCase):
    def test_each_has_its_place(self):
        """A bug whose text has changed would be tried by nobody."""
        root = TOOLS.parent
        loader = importlib.machinery.SourceFileLoader("seeded_bugs", str(root / "tests/opgen/seeded_bugs/run"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("seeded_bugs", loader))
        loader.exec_module(module)
        sources = "\0".join(path.read_text() for path in sorted((root / "opgen").rglob("*.cpp")))
        self.assertGreater(len(module.bugs()), 20)
        for name, (text, becomes) in module.bugs().items():
            with self.subTest(bug=name):
                self.assertEqual(sources.count(text), 1, text)
                self.assertNotEqual(text, becomes)


class Layers(Checkers):
    def test_allowed_includes_pass(self):
        self.write("deckle/core/a.h", '#include <vector>\n#include "deckle/base/error.h"\n#include "deckle/core/b.h"\n')
        self.write("deckle/kernels/cpu/reduce/a.cpp", '#include "deckle/kernels/cpu/simd/math.h"\n#include "hwy/highway.h"\n')
        self.expect_clean("check_layers")

    def test_lower_layer_may_not_include_higher(self):
        self.write("deckle/core/a.h", '\n#include "deckle/autograd/node.h"\n')
        self.expect_caught("check_layers", "deckle/core/a.h:2", "may not include deckle/autograd/node.h")

    def test_sibling_kernel_families_stay_apart(self):
        self.write("deckle/kernels/cpu/reduce/a.cpp", '#include "deckle/kernels/cpu/matmul/product.h"\n')
        self.expect_caught("check_layers", "deckle/kernels/cpu/reduce may not include deckle/kernels/cpu/matmul/product.h")

    def test_an_include_through_highways_macro_counts(self):
        self.write("deckle/kernels/cpu/reduce/a.cpp", '#define HWY_TARGET_INCLUDE "deckle/core/tensor.h"\n')
        self.expect_caught("check_layers", "may not include deckle/core/tensor.h")

    def test_nothing_includes_the_umbrella_inside_the_library(self):
        self.write("deckle/ops/a.cpp", '#include "deckle/deckle.h"\n')
        self.expect_caught("check_layers", "deckle/ops may not include deckle/deckle.h")

    def test_modules_above_see_public_headers_alone(self):
        self.write("deckle/nested/nested_tensor.h", "")
        self.write("deckle/nn/a.h", '#include "deckle/nested/nested_tensor.h"\n')
        self.expect_clean("check_layers")
        self.write("deckle/nn/b.h", '#include "deckle/dispatch/view.h"\n')
        self.expect_caught("check_layers", "deckle/nn may not include deckle/dispatch/view.h")

    def test_the_generator_knows_nothing_of_the_library(self):
        self.write("opgen/emit/a.cpp", '#include "deckle/base/error.h"\n')
        self.expect_caught("check_layers", "opgen may not include deckle/base/error.h")

    def test_third_party_headers_stay_in_their_rooms(self):
        self.write("deckle/core/a.cpp", "#include <omp.h>\n")
        self.expect_caught("check_layers", "<omp.h> belongs to")

    def test_relative_includes_are_refused(self):
        self.write("deckle/core/b.h", "")
        self.write("deckle/core/a.cpp", '#include "b.h"\n')
        self.expect_caught("check_layers", "write the path from the repository root")

    def test_a_folder_without_a_rule_is_an_error(self):
        self.write("deckle/stray/a.h", "")
        self.expect_caught("check_layers", "folder deckle/stray has no rule in layers.yaml")

    def test_rules_that_form_a_cycle_are_refused(self):
        self.write("deckle/core/a.h", "")
        rules = self.root / "rules.yaml"
        rules.write_text("layers:\n  deckle/core: [deckle/ops]\n  deckle/ops: [deckle/core]\npublic: []\nrestricted:\n")
        code, output = self.run_tool("check_layers", "--rules", rules)
        self.assertEqual(code, 1)
        self.assertIn("form a cycle", output)

    def write_headers(self, public, with_them, **files):
        for name, text in {"deckle/deckle.h": '#include "deckle/core/a.h"\n', **files}.items():
            self.write(name, text)
        self.write("rules.yaml", "layers:\n  deckle/deckle.h: [deckle/core]\n  deckle/core: []\n  deckle/ops: [deckle/core]\n"
                   "  deckle/ops/generated: [deckle/core]\npublic: []\nrestricted:\n")
        self.write("public_headers.txt", "\n".join(["[public]", "deckle/deckle.h", *public, "[with them]", *with_them, ""]))
        return self.run_tool("check_layers", "--rules", self.root / "rules.yaml")

    def test_the_list_of_installed_headers(self):
        a, b = {"deckle/core/a.h": '#include "deckle/core/b.h"\n'}, {"deckle/core/b.h": ""}
        made = {"deckle/ops/generated/x.cpp": ""}
        self.assertEqual(self.write_headers(["deckle/core/a.h"], ["deckle/core/b.h"], **a, **b, **made)[0], 0)
        for public, with_them, words in (
                (["deckle/core/a.h"], [], "deckle/core/a.h includes deckle/core/b.h, which is not listed"),
                (["deckle/core/a.h"], ["deckle/core/b.h", "deckle/core/gone.h"], "deckle/core/gone.h does not exist"),
                (["deckle/core/a.h", "deckle/core/b.h", "deckle/core/c.h"], [], "c.h is public, but deckle/deckle.h does not"),
                (["deckle/core/a.h", "deckle/core/b.h"], ["deckle/core/c.h"], "c.h is installed, and nothing needs it there")):
            code, output = self.write_headers(public, with_them, **a, **b, **made, **{"deckle/core/c.h": ""})
            self.assertEqual(code, 1)
            self.assertIn(words, output)

    def test_a_list_over_several_lines(self):
        self.write("deckle/core/a.h", '#include "deckle/base/a.h"\n')
        rules = self.root / "rules.yaml"
        rules.write_text("layers:\n  deckle/base: []\n  deckle/core: [\n    deckle/base]\npublic: []\nrestricted:\n")
        self.assertEqual(self.run_tool("check_layers", "--rules", rules)[0], 0)

    def test_an_empty_tree_is_no_success(self):
        self.assertEqual(self.run_tool("check_layers")[0], 1)


class Tree(Checkers):
    def test_a_tree_in_order_passes(self):
        self.write("deckle/core/a.h", "#define DECKLE_A 1\n")
        self.write("deckle/core/README.md", "# core\n[a](a.h)\n")
        self.expect_clean("check_tree")

    def test_a_folder_without_a_sign(self):
        self.write("deckle/core/a.h", "")
        self.expect_caught("check_tree", "deckle/core: has no README.md")

    def test_folders_beside_the_sources_have_signs_too(self):
        self.write("benchmarks/speed/run", "#!/usr/bin/env python3\n")
        (self.root / "examples/README.md").unlink()
        self.write("examples/CMakeLists.txt", "")
        self.expect_caught("check_tree", "benchmarks/speed: has no README.md", "examples: has no README.md")

    def test_a_sign_without_a_heading(self):
        self.write("deckle/core/a.h", "")
        self.write("deckle/core/README.md", "#core : tensors\n")
        self.expect_caught("check_tree", "deckle/core/README.md: begins with no heading")

    def test_a_sign_that_is_too_long(self):
        self.write("deckle/core/a.h", "")
        self.write("deckle/core/README.md", "# core\n" + "line\n" * 15)
        self.expect_caught("check_tree", "16 lines, 15 are allowed")
        self.write("deckle/core/README.md", "# core\n\n" + "e" * 131 + "\n")
        self.expect_caught("check_tree", "deckle/core/README.md:3: 131 columns, 130 are allowed")

    def test_a_long_file_without_a_reason(self):
        self.write("tests/long.cpp", "\n" * 801)
        self.expect_caught("check_tree", "tests/long.cpp: 801 lines")
        self.write("tools/long_files.txt", "tests/long.cpp  a table that is read as one\n")
        self.expect_clean("check_tree")
        self.write("deckle/core/long.h", "\n" * 301)
        self.expect_caught("check_tree", "deckle/core/long.h: 301 lines")

    def test_a_reason_that_is_no_longer_needed(self):
        self.write("tools/long_files.txt", "tests/gone.cpp  a table\n")
        self.expect_caught("check_tree", "tests/gone.cpp is gone or short again")

    def test_a_dead_link(self):
        self.write("README.md", "[there](docs/nowhere.md)\n")
        self.expect_caught("check_tree", "README.md: link to docs/nowhere.md")

    def test_a_path_that_a_sign_names_and_nobody_has(self):
        self.write("deckle/core/a.h", "")
        self.write("tests/core/a_test.cpp", "")
        self.write("deckle/core/README.md",
                   "# core\n`a.h`, `a/b` in `FAMILY/NAME.cpp`, `x - y`; tests: `tests/core`, `a_*.cpp`\n")
        self.expect_caught("check_tree", "deckle/core/README.md: names a/b, which does not exist", "names a_*.cpp")
        self.write("deckle/core/README.md", "# core\n`a.h`, `*.h`, `core/a.h`, `FAMILY/NAME.cpp`; `x - y`; tests: `tests/core`\n")
        self.expect_clean("check_tree")
        self.write("deckle/README.md", "`deckle/gone.h`\n")
        self.expect_caught("check_tree", "deckle/README.md: names deckle/gone.h")

    def test_public_macros(self):
        self.write("deckle/core/README.md", "# core\n")
        self.write("deckle/core/a.h", "#define CHECK(x) x\n")
        self.expect_caught("check_tree", "macro CHECK")
        self.write("deckle/core/a.h", "".join(f"#define DECKLE_{i} 1\n" for i in range(11)))
        self.expect_caught("check_tree", "define 11 macros")

    def test_lines_that_are_too_long(self):
        self.write("cmake/a.cmake", "# " + "é" * 128 + "\n")  # columns, not bytes
        self.write("tests/opgen/errors/a.yaml", "a" * 131 + "\n")  # input as it is
        self.expect_clean("check_tree")
        self.write("cmake/a.cmake", "\n# " + "e" * 129 + "\n")
        self.expect_caught("check_tree", "cmake/a.cmake:2: 131 columns, 130 are allowed")

    def test_long_lines_of_pages(self):
        long = "a " * 66
        figures = f"<!-- figures: sampling -->\n{long}\n<!-- end of figures -->\n"
        for page in ("PAGE.md", "docs/sub/page.md", "ops/page.md", "tests/opgen/random/page.md"):
            self.write(page, f"| {long} |\n```\n{long}\n```\n{figures}\n    {long}\n")
            self.expect_clean("check_tree")
            self.write(page, f"# Page\n\n{figures}{long}\n")
            self.expect_caught("check_tree", f"{page}:6: 132 columns, 130 are allowed")
            (self.root / page).unlink()

    def test_programs_without_a_suffix_are_sources(self):
        self.write("benchmarks/data", "a" * 131 + "\n")
        self.write("benchmarks/run", "#!/usr/bin/env python3\n" + "b" * 131 + "\n")
        self.expect_caught("check_tree", "benchmarks/run:2: 131 columns, 130 are allowed")
        self.write("benchmarks/run", "#!/usr/bin/env python3\n" + "\n" * 800)
        self.expect_caught("check_tree", "benchmarks/run: 801 lines")
        self.write("benchmarks/run", "#!/usr/bin/env python3\n")
        self.expect_clean("check_tree")

    def test_lines_of_build_files_and_other_programs(self):
        for name, line in (("CMakeLists.txt", "#"), ("Makefile", "#"), ("tests/CMakeLists.txt", "#"), ("tests/a.sh", "#"),
                           ("tools/a", "#!/usr/bin/env bash\n#"), ("tests/a.hpp", "//"), ("tests/a.cc", "//")):
            self.write(name, line + "e" * 130 + "\n")
            self.expect_caught("check_tree", f"{name}:", "130 are allowed")
            (self.root / name).unlink()

    def test_odd_files_are_no_tracebacks(self):
        (self.root / "deckle").mkdir()
        (self.root / "deckle/gone.h").symlink_to("nowhere")
        (self.root / "deckle/folder.h").mkdir()
        self.write("tests/README.md", "# tests\n")
        (self.root / "tests/README.md").write_bytes("# é\n`a**b.h`\n".encode("latin-1"))
        self.expect_caught("check_tree", "names a**b.h, which does not exist")

    def test_links_in_every_form(self):
        for link in ("<docs/gone.md>", 'docs/gone.md "title"', "docs/gone.md#part"):
            self.write("tests/README.md", f"# tests\n[a]({link})\n")
            self.expect_caught("check_tree", "link to docs/gone.md")

    def test_the_format_of_a_name_with_a_space(self):
        if not shutil.which("clang-format-14"):
            self.skipTest("no clang-format 14")
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("tests/a b.cpp", "int   a;\n")
        self.expect_caught("check_tree", "tests/a b.cpp: not formatted")

    def test_a_skipped_check_fails_in_ci(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        empty = {"PATH": str(self.root), "HOME": str(self.root)}
        for more, code in (({}, 0), ({"CI": "1"}, 1)):
            done = subprocess.run([sys.executable, TOOLS / "check_tree", self.root], capture_output=True, text=True,
                                  env={**empty, **more})
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_kernels_compare_by_not_equal(self):
        self.write("deckle/kernels/cpu/simd/README.md", "# simd\n")
        self.write("deckle/kernels/cpu/simd/a.h", "auto a = not_equal(x, y);\n")
        self.expect_clean("check_tree")
        self.write("deckle/kernels/cpu/simd/a.h", "\nauto a = hn::Ne(x, y);\n")
        self.expect_caught("check_tree", "deckle/kernels/cpu/simd/a.h:2: Ne is false for NaN on AVX")

    def test_inline_assembly_stands_where_instructions_are_wrapped(self):
        for text in ('asm volatile("nop");', 'asm("nop" ::: "memory");', '  __asm__ __volatile__ ("nop");'):
            self.write("deckle/kernels/cuda/attention/a.cuh", f"\n{text}\n")
            self.write("deckle/kernels/cuda/attention/README.md", "# a\n")
            self.expect_caught("check_tree", "deckle/kernels/cuda/attention/a.cuh:2: inline assembly")
        self.write("deckle/kernels/cuda/attention/a.cuh", "// one asm (block)\nint asm_count(int);\n")
        self.write("deckle/kernels/cuda/arch/b.cuh", 'asm("nop");\n')
        self.write("deckle/kernels/cuda/arch/README.md", "# arch\n")
        self.expect_clean("check_tree")

    def test_what_clang_format_would_change(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("tests/a.cpp", "int  main( ) { }\n")
        code, output = self.run_tool("check_tree")
        if "check skipped" in output:
            self.skipTest(output.strip().splitlines()[-1])
        self.assertEqual((code, output.strip()), (1, "tests/a.cpp: not formatted (make format)"))
        self.write("tests/a.cpp", "int main() {}\n")
        self.expect_clean("check_tree")

    def test_another_clang_format_is_a_counted_skip(self):
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("tests/a.cpp", "int  main( ) { }\n")
        self.write("bin/clang-format", "#!/bin/sh\necho clang-format version 99.0\n")
        (self.root / "bin/clang-format").chmod(0o755)
        done = subprocess.run([sys.executable, TOOLS / "check_tree", self.root], capture_output=True, text=True,
                              env={"PATH": str(self.root / "bin")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 check skipped: the format of the sources", done.stdout)


class Messages(Checkers):
    def test_texts_say_what_is_expected_and_leave_the_name_to_the_caller(self):
        self.write("deckle/ops/a.cpp", 'check(p >= f("x)"), Argument{"p"}, "is {} "\n  "(expected 0 to 1)", p);\n')
        self.write("deckle/ops/c.cpp", 'fail("shapes do not broadcast");\n')
        self.write("ops/a.yaml", '- {that: a, says: "is {a}\n    (expected 1)"}\n')
        self.expect_clean("check_messages")
        self.write("deckle/ops/b.cpp", '\ncheck(p > 0, "p is {}", p);\n')
        self.expect_caught("check_messages", 'deckle/ops/b.cpp:2: the text "p is {}" does not end with (expected ...)')
        self.write("deckle/ops/b.cpp", 'fail("dropout: p is {} (expected 0 to 1)", p);\n')
        self.expect_caught("check_messages", "begins with a name of its own")
        self.write("deckle/ops/b.cpp", 'fail("nn::Dropout2d: {} are wrong (expected 0 to 1)", p);\n')
        self.expect_caught("check_messages", "begins with a name of its own")
        self.write("deckle/ops/b.cpp", 'fail("p is {} (expected 0 to 1)", p);\n')
        self.expect_caught("check_messages", "names the argument that it is about")
        self.write("deckle/ops/b.cpp", 'fail("p is {}, q is {} (expected the same)", p, q);\n')
        self.expect_clean("check_messages")
        self.write("deckle/ops/b.cpp", "")
        self.write("deckle/ops/b.cpp", 'throw Error(ErrorKind::runtime, "the cap is " + cap);\n')
        self.expect_caught("check_messages", 'deckle/ops/b.cpp:1: the text "the cap is {}" does not end with (expected ...)')
        self.write("deckle/ops/b.cpp", 'throw Error(dense ? "it is dense (expected a nested one)" : "it is nested");\n')
        self.expect_caught("check_messages", 'the text "it is nested" does not end with (expected ...)')
        self.write("deckle/ops/b.cpp", 'throw Error("row " + std::to_string(row) + " is none (expected 0.." + str(n) + ")");\n')
        self.expect_clean("check_messages")
        self.write("ops/a.yaml", '- {that: a, says: "a is {a}"}\n')
        self.expect_caught("check_messages", "ops/a.yaml:1")
        self.write("ops/a.yaml", '- {that: a, says: "a has shape {a.sizes()} (expected none)"}\n')
        self.expect_caught("check_messages", "names the argument that it is about")


class Sanitize(Checkers):
    def test_what_failed_and_what_did_not_run_is_named_and_counted(self):
        self.write("CTestTestfile.cmake", 'add_test(good "true")\nadd_test(absent "/no/such/program")\n'
                   'add_test(bad "sh" "-c" "echo WARNING: ThreadSanitizer: race; echo \'[  FAILED  ] A.B (3 ms)\'; exit 1")\n'
                   'add_test(wrong "sh" "-c" "echo KeyError: 3; exit 1")\n'
                   'add_test(site "sh" "-c" "exit 77")\nset_tests_properties(site PROPERTIES SKIP_RETURN_CODE 77)\n'
                   'add_test(avx512 "true")\nset_tests_properties(avx512 PROPERTIES DISABLED ON)\n'
                   'add_test(skips "printf" "[  SKIPPED ] Memory.Peak (0 ms)\\n[  SKIPPED ] 1 test, listed below:\\n'
                   'test_disk (__main__.Training.test_disk) ... skipped \'why\'\\n")\n')
        subprocess.run(["ctest", "--output-junit", self.root / "junit.xml"], cwd=self.root, capture_output=True)
        loader = importlib.machinery.SourceFileLoader("sanitize", str(TOOLS / "sanitize"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sanitize", loader))
        sys.dont_write_bytecode = True
        loader.exec_module(module)
        log = (self.root / "Testing/Temporary/LastTest.log").read_text()
        row = module.read("tsan", self.root / "junit.xml", log, 30.4, 90)
        self.assertEqual(row["failed"], {"bad": "A.B", "wrong": "KeyError: 3", "absent": "Unable to find executable"})
        self.assertEqual((row["tests"], row["ran"], row["reports"]), (7, 5, 1))
        self.assertEqual(module.summary(row), [
            "tsan (threads): 5 tests ran, 3 failed, 1 reports, 2 minutes with the build", "  3 failed: absent, bad, wrong",
            "  2 not run: site, avx512", "  2 skipped within a test: Memory.Peak, test_disk"])
        kept = self.root / "sanitizers.json"
        kept.write_text(json.dumps({"rows": [{"kind": "tsan", "machine": "M"}, {"kind": "asan", "reports": 1}]}))
        self.assertEqual(module.with_kept([{"kind": "asan"}], kept), [{"kind": "asan"}, {"kind": "tsan", "machine": "M"}])
        self.assertEqual(module.with_kept([row], kept), [row])  # a row without facts is not kept
        self.assertEqual(module.with_kept([row], self.root / "none.json"), [row])


if __name__ == "__main__":
    unittest.main()
