"""Read files of paper records: formats parse them, intake stores them, sources fetch them."""
