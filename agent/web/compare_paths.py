"""Where a comparison is served, as JSON and as a page."""

COMPARE, COMPARE_PAGE = "/api/v1/compare", "/compare"
