2	Ä-bababa2abaababa2
rose ababa2	a--b-c中2中 rose中2b中Bjoined