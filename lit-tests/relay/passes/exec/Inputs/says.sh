echo three functions seen >&2
cat
