"""Define who we are in letters and pages, and sign the links to our pages."""
