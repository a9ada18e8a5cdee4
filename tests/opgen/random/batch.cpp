#include "tests/opgen/random/batch.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/opgen/random/check.h"
#include "tests/opgen/random/write.h"
#include "tests/support/temporary_folder.h"

namespace deckle::random_entries {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

bool run(const std::string& command, const fs::path& log) {
  return std::system(fmt::format("{} > {} 2>&1", command, log.string()).c_str()) == 0;
}

std::string calls_of(const Entry& entry, const Entries& others) {
  for (const auto& [name, ignored] : others) {
    for (const ExprPtr& body : entry.bodies) {
      if (opgen::to_string(body).find(name + "(") != std::string::npos) return name;
    }
    for (const auto& [let, tree] : entry.lets) {
      if (opgen::to_string(tree).find(name + "(") != std::string::npos) return name;
    }
  }
  return "";
}

std::vector<Entry> without(const std::vector<Entry>& entries, const std::map<std::string, std::string>& failed) {
  std::vector<Entry> rest;
  Entries gone;
  for (const Entry& entry : entries) {
    if (failed.count(entry.name)) gone[entry.name] = &entry;
  }
  for (const Entry& entry : entries) {
    if (!failed.count(entry.name) && calls_of(entry, gone).empty()) rest.push_back(entry);
  }
  return rest;
}

std::string indented(const std::string& text, size_t lines) {
  std::stringstream stream(text);
  std::string result;
  for (std::string line; lines > 0 && std::getline(stream, line); --lines) result += "\n  " + line;
  return result;
}

/// Loads the compiled entries in a process of their own and checks them.
void check_in_child(const fs::path& library, const std::vector<Entry>& entries, uint64_t seed,
                    std::map<std::string, std::string>& failures) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const auto say = [&](const std::string& line) {
      if (::write(ends[1], line.data(), line.size()) < 0) _exit(3);
    };
    void* const handle = dlopen(library.c_str(), RTLD_NOW);
    if (handle == nullptr) {
      say(fmt::format("\t{}\n", dlerror()));
      _exit(0);
    }
    const auto table = reinterpret_cast<const Case* (*)()>(dlsym(handle, "random_cases"));
    Entries others;
    for (const Entry& entry : entries) others[entry.name] = &entry;
    const Case* compiled = table();
    for (const Entry& entry : entries) {
      say(entry.name + "\tstarted\n");
      Engine engine(seed ^ std::hash<std::string>()(entry.name));
      std::string wrong = check_case(*compiled++, entry, others, engine);
      std::replace(wrong.begin(), wrong.end(), '\n', ' ');
      say(fmt::format("{}\t{}\n", entry.name, wrong));
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::stringstream lines(said);
  std::string running;
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    const std::string name = line.substr(0, tab), wrong = line.substr(tab + 1);
    running = wrong == "started" ? name : "";
    if (!wrong.empty() && wrong != "started") failures[name] = wrong;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failures[running] = fmt::format("the check ended with status {}", status);
}

}  // namespace

std::map<std::string, std::string> failures_of(const std::vector<Entry>& entries, uint64_t seed) {
  std::map<std::string, std::string> failures;
  if (entries.empty()) return failures;
  const deckle::TemporaryFolder folder;
  const fs::path& path = folder.path();
  std::string yaml, kernels, callers, cases;
  std::vector<int> first_lines;
  for (const Entry& entry : entries) {
    first_lines.push_back(static_cast<int>(std::count(yaml.begin(), yaml.end(), '\n')) + 1);
    yaml += yaml_of(entry) + "\n";
    kernels += kernel_of(entry);
    callers += caller_of(entry);
    cases += case_of(entry);
  }
  write(path / "drawn.yaml", yaml);
  write(path / "drawn.cpp",
        "#include \"tests/ops/reference.h\"\n\n#include \"deckle/ops/generated/kernels_drawn.h\"\n\n"
        "namespace deckle::kernels::cpu {\n\n" +
            kernels + "}  // namespace deckle::kernels::cpu\n");
  write(path / "entries.cpp",
        "#include \"deckle/ops/generated/drawn_0.cpp\"\n\n#include \"deckle/ops/generated/factory.h\"\n#include "
        "\"tests/opgen/random/case.h\"\n\nnamespace "
        "deckle::random_entries {\n"
        "namespace {\n\n" +
            callers + "}  // namespace\n\nextern \"C\" const Case* random_cases() {\n  static const Case kCases[] = {\n" + cases +
            "  };\n  return kCases;\n}\n\n}  // namespace deckle::random_entries\n");

  const fs::path log = path / "log.txt";
  const char* const other = std::getenv("DECKLE_TEST_OPGEN");  // a generator with a seeded bug
  if (!run(fmt::format("{} --functions {}/functions.yaml --known {} --entries {}/drawn.yaml=1 --out {} --root {}",
                       other != nullptr ? other : RANDOM_OPGEN, RANDOM_OPS, RANDOM_KNOWN, path.string(), path.string(),
                       path.string()),
           log)) {
    const std::string said = read(log);
    std::stringstream lines(said);
    decltype(failures) refused;
    for (std::string line; std::getline(lines, line);) {
      int number = 0;
      if (std::sscanf(line.c_str(), "drawn.yaml:%d:", &number) != 1) continue;
      const auto after = std::upper_bound(first_lines.begin(), first_lines.end(), number);
      refused[entries[static_cast<size_t>(after - first_lines.begin() - 1)].name] = "opgen refuses it: " + line;
    }
    if (refused.empty()) failures[""] = "opgen failed: " + said;
    size_t passed_over = 0;
    for (const auto& [name, reason] : refused) {
      // A drawn expression may be one whose derivatives are too large to be written out, with a part that nothing leads to, or
      // with a formula that is 0 * inf where a drawn number makes it so: nothing to check, and no failure. Few are.
      const auto says = [&, &reason = reason](const char* text) { return reason.find(text) != std::string::npos; };
      const bool passes =
          says("derivatives of this op grow beyond") || says("no point was found at which") || says("nan, and should be");
      if (passes)
        ++passed_over;
      else
        failures[name] = reason;
    }
    if (passed_over > 2 + entries.size() / 4)
      failures[""] = fmt::format("{} of {} drawn entries are refused, and so not checked: {}", passed_over, entries.size(), said);
    if (entries.size() > refused.size() && !refused.empty()) {
      const auto others = failures_of(without(entries, refused), seed);
      failures.insert(others.begin(), others.end());
    }
    return failures;
  }

  // Two translation units for two processors; nothing of theirs is worth optimising.
  const std::string compile = fmt::format("{} -std=c++20 -O0 -w -fPIC -I{} {}", RANDOM_COMPILER, path.string(), RANDOM_INCLUDES);
  const bool pointwise = fs::exists(path / "deckle/ops/generated/drawn_kernels_0.cpp");
  write(path / "kernels.cpp",
        std::string(pointwise ? "#include \"deckle/ops/generated/drawn_kernels_0.cpp\"\n" : "") + "#include \"drawn.cpp\"\n");
  bool compiled[2] = {false, false};
  const std::string first = fmt::format("{0} -c {1}/entries.cpp -o {1}/entries.o", compile, path.string());
  // One instruction set: the widest of a build for this machine.
  const std::string second = fmt::format("{0} {2} -c {1}/kernels.cpp -o {1}/kernels.o", compile, path.string(),
                                         __builtin_cpu_supports("avx2") != 0 ? "-march=haswell -DHWY_COMPILE_ONLY_STATIC" : "");
  std::thread beside([&] { compiled[1] = run(second, path / "kernels.txt"); });
  compiled[0] = run(first, path / "entries.txt");
  beside.join();
  const bool linked = compiled[0] && compiled[1] &&
                      run(fmt::format("{0} -shared {1}/entries.o {1}/kernels.o {2} -o {1}/entries.so", RANDOM_COMPILER,
                                      path.string(), RANDOM_LIBRARIES),
                          path / "link.txt");
  if (!linked) {
    const std::string said =
        read(path / "entries.txt") + read(path / "kernels.txt") + (fs::exists(path / "link.txt") ? read(path / "link.txt") : "");
    if (entries.size() == 1) {
      const size_t error = said.find("error");
      failures[entries[0].name] =
          "its C++ does not compile:" + indented(said.substr(error == std::string::npos ? 0 : said.rfind('\n', error) + 1), 4);
      return failures;
    }
    // Alone, or with the one that it calls.
    Entries others;
    for (const Entry& entry : entries) others[entry.name] = &entry;
    for (const Entry& entry : entries) {
      std::vector<Entry> few = {entry};
      Entries callable = others;
      callable.erase(entry.name);
      for (std::string called; !(called = calls_of(entry, callable)).empty(); callable.erase(called))
        few.insert(few.begin(), *others.at(called));
      if (few.size() == entries.size()) {
        failures[entry.name] = "its C++ does not compile:" + indented(said, 6);
        continue;
      }
      const auto alone = failures_of(few, seed);
      failures.insert(alone.begin(), alone.end());
    }
    if (failures.empty()) failures[""] = "entries that compile alone do not compile together:" + indented(said, 6);
    return failures;
  }
  check_in_child(path / "entries.so", entries, seed, failures);
  return failures;
}

}  // namespace deckle::random_entries
