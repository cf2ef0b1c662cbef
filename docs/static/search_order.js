// Pages for users come first in the results of a search, then the reference, then decisions and tables of results.
const LATER = [
  [/^(decisions(\/|$)|changes$)/, 200],
  [/^(api(\/|$)|parts\/|_modules\/|reproductions\/)/, 100],
];

var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    return score - (LATER.find(([pages]) => pages.test(page)) ?? [null, 0])[1];
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
