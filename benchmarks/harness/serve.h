#pragma once

#include <iostream>
#include <sstream>
#include <string>

namespace deckle::benchmarks {

/// The side of contender.py in C++: answers each line on standard input with answer(request, arguments), one line of JSON;
/// request is the line's first word, arguments the stream of the others.
template <typename Answer>
void serve(const Answer& answer) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream arguments(line);
    std::string request;
    arguments >> request;
    std::cout << answer(request, arguments) << std::endl;
  }
}

}  // namespace deckle::benchmarks
