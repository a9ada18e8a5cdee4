// Search over window.searchIndex (made by index.py). Plain ES5 without a document, so that tests run it on a small engine.

function Search(index) {
  this.index = index;
  this.terms = index.terms.split(" ");
  this.lists = index.lists.split(" ");
  this.places = {};
}

Search.EXACT = 1, Search.PREFIX = 0.55, Search.NEAR = 0.3;

// The same word in the plural is the same word; stem() of index.py does the same.
Search.stem = function (word) {
  return word.length > 3 && /s$/.test(word) && !/(ss|us|is)$/.test(word) ? word.slice(0, -1) : word;
};

Search.words = function (query) {
  var found = query.toLowerCase().match(/[a-z_][a-z0-9_]*|[0-9]+/g) || [], words = [];
  for (var i = 0; i < found.length; ++i) {
    var word = Search.stem(found[i].replace(/^_+|_+$/g, ""));
    if (word && words.indexOf(word) < 0) words.push(word);
  }
  return words;
};

// {section: weight} of term number i.
Search.prototype.postings = function (i) {
  if (!this.places[i]) {
    var parts = this.lists[i].split(","), sections = {}, last = 0;
    for (var p = 0; p < parts.length; ++p) {
      var pair = parts[p].split(":");
      last += parseInt(pair[0], 36);
      sections[last] = pair.length > 1 ? parseInt(pair[1], 36) : 1;
    }
    this.places[i] = sections;
  }
  return this.places[i];
};

// The first term that is not less than `word`.
Search.prototype.lower = function (word) {
  var low = 0, high = this.terms.length;
  while (low < high) {
    var middle = (low + high) >> 1;
    if (this.terms[middle] < word) low = middle + 1;
    else high = middle;
  }
  return low;
};

// Whether one letter inserted, removed, replaced, or two neighbours exchanged make `a` of `b`.
Search.near = function (a, b) {
  if (Math.abs(a.length - b.length) > 1 || a[0] !== b[0]) return false;
  var i = 0, x = a.length, y = b.length;
  while (i < x && i < y && a[i] === b[i]) ++i;
  while (x > i && y > i && a[x - 1] === b[y - 1]) --x, --y;
  if (x - i <= 1 && y - i <= 1) return true;
  return x - i === 2 && y - i === 2 && a[i] === b[i + 1] && a[i + 1] === b[i];
};

// Terms that `word` may mean: [[number, how well]].
Search.prototype.matches = function (word, whole) {
  var found = [], first = this.lower(word), i = first;
  if (this.terms[first] === word) {
    found.push([first, Search.EXACT]);
    ++i;
  }
  if (!whole || !found.length) {
    for (; i < this.terms.length && this.terms[i].slice(0, word.length) === word && found.length < 60; ++i) {
      if (word.length > 1) found.push([i, Search.PREFIX * (0.5 + 0.5 * word.length / this.terms[i].length)]);
    }
  }
  if (!found.length && word.length > 3) {
    for (i = 0; i < this.terms.length; ++i) {
      if (Search.near(word, this.terms[i])) found.push([i, Search.NEAR]);
    }
  }
  return found;
};

// The best sections: [{page, kind, title, section, path, excerpt, score}].
Search.prototype.find = function (query, limit) {
  var words = Search.words(query), scores = {}, hits = {}, index = this.index, count = index.sections.length;
  var whole = query.toLowerCase().replace(/^\s+|\s+$/g, "").replace(/\s+/g, "_"), wholes = {};
  wholes[whole] = true;
  for (var w = 0; w < words.length; ++w) {
    var best = {}, terms = this.matches(words[w], w < words.length - 1);
    for (var m = 0; words.length === 1 && m < terms.length; ++m) {  // what was meant is as good as what was typed
      if (terms[m][1] === Search.NEAR) wholes[this.terms[terms[m][0]]] = true;
    }
    for (var t = 0; t < terms.length; ++t) {
      var sections = this.postings(terms[t][0]), size = 0, key;
      for (key in sections) ++size;
      var rarity = Math.log(1 + count / (1 + size));
      for (key in sections) {
        var weight = terms[t][1] * rarity * Math.log(1 + sections[key]);
        if (!(best[key] >= weight)) best[key] = weight;
      }
    }
    for (var section in best) {
      scores[section] = (scores[section] || 0) + best[section];
      hits[section] = (hits[section] || 0) + 1;
    }
  }
  var found = [];
  for (var number in scores) {
    var row = index.sections[number], page = index.pages[row[0]], share = hits[number] / words.length;
    var score = scores[number] * share * share * share * index.kinds[page[2]];
    if (wholes[page[1].toLowerCase()] && !row[1]) score *= 3;
    else if (wholes[row[2].toLowerCase()]) score *= 1.6;
    found.push({page: page[1], kind: page[2], path: page[0] + (row[1] ? "#" + row[1] : ""), section: row[2], excerpt: row[3], score: score});
  }
  found.sort(function (a, b) { return b.score - a.score || (a.path < b.path ? -1 : 1); });
  return Search.thinned(found, limit || 10);
};

// At most two sections of one page.
Search.thinned = function (found, limit) {
  var seen = {}, kept = [];
  for (var i = 0; i < found.length && kept.length < limit; ++i) {
    var page = found[i].path.split("#")[0];
    seen[page] = (seen[page] || 0) + 1;
    if (seen[page] <= 2) kept.push(found[i]);
  }
  return kept;
};

Search.escaped = function (text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
};

// The text as HTML, the words that were asked for marked: those of the text, not of what escapes it.
Search.marked = function (text, words) {
  var pattern = words.filter(function (word) { return word.length > 1; }).join("|");
  if (!pattern) return Search.escaped(text);
  return text.split(new RegExp("(" + pattern + ")", "i")).map(function (part, i) {
    return i % 2 ? "<mark>" + part + "</mark>" : Search.escaped(part);
  }).join("");
};

if (typeof module !== "undefined") module.exports = Search;
